"""Time, chance and identity: every input of the system that is not an argument."""

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """Tells time. Stored instants follow the store's clock; this one is for local decisions."""

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines and durations within the process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""
        ...


class Chance(Protocol):
    """A source of random numbers, so that a test can replay what it drew."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class IdSource(Protocol):
    """Makes identities."""

    def task_id(self, key: str | None = None) -> UUID:
        """Return a new task id: time-ordered, carrying the partition (see `domain.ids`)."""
        ...

    def worker_id(self) -> str:
        """Return a name for this process start that no other process start ever has."""
        ...
