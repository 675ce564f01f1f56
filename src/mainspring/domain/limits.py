"""Limits: how many tasks of a queue, or of a group of it, may run at once and start in a second.

Tasks of a queue that were submitted with the same group key are a group of it: those of a customer,
say. A limit of the queue holds for all its tasks together, one of a group for those of the group.
Groups share the starts of a queue evenly, whether or not there is a limit.

A rate is a token bucket: in any span of T seconds no more than ``burst + rate * T`` tasks start.
"""

import math
import re
from typing import Final

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import shown

CONCURRENCY_MAX: Final = 100_000
RATE_MAX: Final = 1_000_000.0
"""Starts a second."""

BURST_MAX: Final = 1_000_000
_SPANS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smhd])", re.ASCII)
_RATE_SHAPE: Final = "a rate is a number of starts and a span of time: 100/s, 30/m, 500/h or 1000/d"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks may do together; None is without limit."""

    concurrency: int | None = None
    """How many may run at once, 1 to `CONCURRENCY_MAX`. A running task is one that is leased,
    until its lease is settled or rescued."""

    rate: float | None = None
    """How many may start in a second, above 0 and at most `RATE_MAX`; every attempt is a start."""

    burst: int | None = None
    """How many may start at once after a pause, 1 to `BURST_MAX`. None: what the rate allows in one
    second, at least 1. Only together with a rate."""

    def __post_init__(self) -> None:
        """Raise `InvalidValue` for values out of their bounds."""
        if self.concurrency is not None and not 1 <= self.concurrency <= CONCURRENCY_MAX:
            message = (
                f"concurrency is {shown(self.concurrency)}; it must be 1 to {CONCURRENCY_MAX}. "
                "To let nothing start, pause the queue"
            )
            raise InvalidValue(message, field="concurrency")
        if self.rate is not None and not 0 < self.rate <= RATE_MAX:
            message = f"rate is {shown(self.rate)} a second; it must be above 0 and at most {RATE_MAX:g}"
            raise InvalidValue(message, field="rate")
        if self.burst is not None and self.rate is None:
            message = "burst is given without a rate; give a rate as well, or leave it out"
            raise InvalidValue(message, field="burst")
        if self.burst is not None and not 1 <= self.burst <= BURST_MAX:
            message = f"burst is {shown(self.burst)}; it must be 1 to {BURST_MAX}"
            raise InvalidValue(message, field="burst")

    @property
    def is_none(self) -> bool:
        """Whether it limits nothing."""
        return self.concurrency is None and self.rate is None

    @property
    def bucket(self) -> int:
        """How many starts the token bucket holds."""
        return self.burst or max(1, math.ceil(self.rate or 0))


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue and of its groups."""

    queue: Limit = Limit()
    """Of all tasks of the queue together."""

    group: Limit = Limit()
    """Of each group of it by itself."""

    groups: dict[str, Limit] = {}
    """Of single groups, by their key, in place of `group`."""


def rate_of(text: str) -> float:
    """Return the starts a second that a text such as ``30/m`` means.

    Raises `InvalidValue` for any other text.
    """
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidValue(f"rate is {shown(text)}; {_RATE_SHAPE}", field="rate")
    return float(match[1]) / _SPANS[match[2]]
