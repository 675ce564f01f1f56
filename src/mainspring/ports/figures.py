"""Figures of the whole installation, for metrics."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class Ended(msgspec.Struct, frozen=True):
    """Tasks that ended alike in a span of time."""

    task_type: str
    outcome: str
    late_bucket: int | None
    """How many of the bounds of lateness theirs reaches."""

    long_bucket: int | None
    """The same of the duration of the last attempt; None where there was none."""

    count: int
    lateness: float | None
    """Sum, in seconds."""

    duration: float | None


class Figures(Protocol):
    """What only the store knows of everything that happened."""

    async def ended_between(
        self,
        after: datetime,
        upto: datetime,
        late_bounds: Sequence[float],
        long_bounds: Sequence[float],
    ) -> list[Ended]:
        """Return what ended after one time and up to another, by the store's clock."""
        ...

    async def store_now(self) -> datetime:
        """Return the time of the store's clock."""
        ...

    async def leases_expired(self) -> int:
        """Return how many leases were ever taken back."""
        ...
