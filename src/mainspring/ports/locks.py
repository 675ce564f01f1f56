"""Locks by name that end by themselves, for what must not be done by two at once.

They are no proof: whoever stands still for longer than its lock lasts goes on beside the next one
that got it, so what cannot bear that compares the number of the grant. Nothing of the task store
depends on them.
"""

from typing import Protocol

import msgspec

from mainspring.domain.errors import Conflict, Unavailable


class LocksUnavailable(Unavailable):
    """Locks cannot be used now. Nothing was granted; what was may last until its end."""

    code = "locks_unavailable"


class LockHeld(Conflict):
    """Somebody else has the lock. `seconds` is after how long it ends, if it is not extended."""

    code = "lock_held"

    def __init__(self, message: str, *, field: str | None = None, seconds: float = 0.0) -> None:
        super().__init__(message, field=field)
        self.seconds = seconds


class LockLost(Conflict):
    """The lock could not be kept until the end of the block that it protects."""

    code = "lock_lost"


class Grant(msgspec.Struct, frozen=True):
    """The lock was given."""

    number: int
    """Higher than that of every grant of this lock before, so whoever is written to can refuse a
    lower one. Locks that lost everything they knew go by their clock."""


class Refusal(msgspec.Struct, frozen=True):
    """Somebody else has the lock."""

    seconds: float
    """After how long it ends, if it is not extended."""


class Locks(Protocol):
    """Locks by name; an owner is whatever text one holder alone uses.

    Every method may be repeated, and raises `LocksUnavailable` after a bounded time.
    """

    async def acquire(self, name: str, owner: str, seconds: float) -> Grant | Refusal:
        """Give the lock for so many seconds if nobody has it. Who has it already gets the same
        grant again, for so many seconds from now.
        """
        ...

    async def extend(self, name: str, owner: str, seconds: float) -> bool:
        """Let the lock last for so many seconds from now; False, and nothing is changed, if it is
        not the owner's any more.
        """
        ...

    async def release(self, name: str, owner: str) -> bool:
        """End the lock; False, and nothing is changed, if it is not the owner's any more."""
        ...

    async def close(self) -> None:
        """Release connections, and no lock. Safe to call twice."""
        ...
