"""Coordination of schedulers within one process, for simulations and tests."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from mainspring.domain.errors import Unavailable
from mainspring.ports.clock import Clock
from mainspring.ports.coordination import View


@dataclass
class _Seats:
    """Who is there until when, and who holds which key."""

    clock: Clock
    expiries: dict[str, float] = field(default_factory=dict)
    holders: dict[int, str] = field(default_factory=dict)
    is_down: bool = False
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def reached(self) -> None:
        """Let sessions end that are over; raise when nobody answers."""
        if self.is_down:
            raise Unavailable("the coordination is down")
        now = self.clock.monotonic()
        for member in [one for one, until in self.expiries.items() if until <= now]:
            self.remove(member)

    def remove(self, member: str) -> None:
        """Forget a member with all its keys."""
        self.expiries.pop(member, None)
        self.holders = {one: who for one, who in self.holders.items() if who != member}
        self.stir()

    def stir(self) -> None:
        """Wake whoever waits for a change."""
        self.stirred.set()
        self.stirred = asyncio.Event()


class MemorySession:
    """`ports.coordination.Session`."""

    def __init__(self, seats: _Seats, member: str, ttl_seconds: float) -> None:
        self._seats = seats
        self._member = member
        self._ttl_seconds = ttl_seconds

    @property
    def ttl_seconds(self) -> float:
        """How long the session lasts after a renewal."""
        return self._ttl_seconds

    async def renew(self) -> bool:
        """Let the session last from now on; False when it is over."""
        self._seats.reached()
        if self._member not in self._seats.expiries:
            return False
        self._seats.expiries[self._member] = self._seats.clock.monotonic() + self._ttl_seconds
        return True

    async def view(self) -> View:
        """Return the members and holders."""
        self._seats.reached()
        return View(frozenset(self._seats.expiries), dict(self._seats.holders))

    async def changed(self, timeout_seconds: float) -> None:
        """Return at the next change, or when a session may have ended by itself."""
        until = min((*self._seats.expiries.values(), float("inf")))
        left = max(until - self._seats.clock.monotonic(), 0.001)
        stirred = asyncio.ensure_future(self._seats.stirred.wait())
        slept = asyncio.ensure_future(self._seats.clock.sleep(min(left, timeout_seconds)))
        try:
            await asyncio.wait({stirred, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stirred.cancel()
            slept.cancel()

    async def acquire(self, partitions: Collection[int]) -> frozenset[int]:
        """Take the keys that are free."""
        self._seats.reached()
        if self._member not in self._seats.expiries:
            return frozenset()
        for one in partitions:
            self._seats.holders.setdefault(one, self._member)
        self._seats.stir()
        return frozenset(one for one in partitions if self._seats.holders[one] == self._member)

    async def release(self, partitions: Collection[int]) -> None:
        """Give keys back."""
        self._seats.reached()
        for one in partitions:
            if self._seats.holders.get(one) == self._member:
                del self._seats.holders[one]
        self._seats.stir()

    async def leave(self) -> None:
        """End the session."""
        self._seats.reached()
        self._seats.remove(self._member)


class MemoryCoordination:
    """`ports.coordination.Coordination`. Sessions end by the given clock."""

    def __init__(self, clock: Clock) -> None:
        self._seats = _Seats(clock)

    async def join(self, member: str, ttl_seconds: float) -> MemorySession:
        """Begin a session."""
        self._seats.reached()
        self._seats.expiries[member] = self._seats.clock.monotonic() + ttl_seconds
        self._seats.stir()
        return MemorySession(self._seats, member, ttl_seconds)

    def take_down(self, *, is_down: bool) -> None:
        """Let nobody through, or everybody again."""
        self._seats.is_down = is_down

    def wipe(self) -> None:
        """Forget everything, as a server does that lost its disk."""
        for member in list(self._seats.expiries):
            self._seats.remove(member)

    async def close(self) -> None:
        """Nothing is held that needs closing."""
