"""`ports.locks.Locks` in this process."""

import msgspec

from mainspring.ports.clock import Clock
from mainspring.ports.locks import Grant, Refusal


class _Lock(msgspec.Struct):
    owner: str
    until: float
    number: int


class MemoryLocks:
    """Locks for those who share this object."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: dict[str, _Lock] = {}
        self._number = 0

    async def acquire(self, name: str, owner: str, seconds: float) -> Grant | Refusal:
        """Give the lock for so many seconds if nobody has it."""
        now = self._clock.monotonic()
        held = self._held(name)
        if held is not None and held.owner != owner:
            return Refusal(held.until - now)
        if held is None:
            self._number += 1
            held = self._locks[name] = _Lock(owner, now, self._number)
        held.until = now + seconds
        return Grant(held.number)

    async def extend(self, name: str, owner: str, seconds: float) -> bool:
        """Let the lock last for so many seconds from now, if it is the owner's."""
        held = self._held(name)
        if held is None or held.owner != owner:
            return False
        held.until = self._clock.monotonic() + seconds
        return True

    async def release(self, name: str, owner: str) -> bool:
        """End the lock, if it is the owner's."""
        held = self._held(name)
        if held is None or held.owner != owner:
            return False
        del self._locks[name]
        return True

    async def close(self) -> None:
        """Nothing has to be closed."""

    def _held(self, name: str) -> _Lock | None:
        held = self._locks.get(name)
        return held if held is not None and held.until > self._clock.monotonic() else None
