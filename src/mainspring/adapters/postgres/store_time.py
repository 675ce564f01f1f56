"""The time of the database server, estimated without asking it each time."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

GOOD_SECONDS: Final = 10.0
"""How long a sample is relied on: clocks of machines part by far less than a millisecond then."""


class StoreTime:
    """Estimates the server's clock from answers that said what it was.

    An answer is older than it seems by the way it came, so the estimate is late by that and never
    early. Of the samples of some seconds the one that came the fastest counts. ``exact`` stands in
    for the clock in tests; it returns None in production.
    """

    def __init__(self, exact: Callable[[], datetime | None]) -> None:
        self._exact = exact
        self._zero: datetime | None = None
        self._until = 0.0

    def learn(self, now: datetime) -> None:
        """Take a sample: what the server's clock was when it answered, at the earliest."""
        instant = asyncio.get_running_loop().time()
        zero = now - timedelta(seconds=instant)
        if self._zero is None or zero >= self._zero or instant >= self._until:
            self._zero = zero
            self._until = instant + GOOD_SECONDS

    def known(self) -> datetime | None:
        """Return the time of the server; None when a sample is needed."""
        exact = self._exact()
        if exact is not None:
            return exact
        instant = asyncio.get_running_loop().time()
        if self._zero is None or instant >= self._until:
            return None
        return self._zero + timedelta(seconds=instant)
