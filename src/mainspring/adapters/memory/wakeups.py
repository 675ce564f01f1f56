"""Hints between the parts of one process."""

import asyncio

from mainspring.ports.clock import Clock
from mainspring.ports.store import Hint


class Board:
    """Where hints are posted for everyone who listens, in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[MemoryWakeups, None] = {}

    def post(self, hint: Hint) -> None:
        """Give a hint to every listener."""
        for listener in self._listeners:
            listener.give(hint)

    def listener(self) -> "MemoryWakeups":
        """Return a new listener, which is told everything from now on."""
        listener = MemoryWakeups(self, self._clock)
        self._listeners[listener] = None
        return listener

    def forget(self, listener: "MemoryWakeups") -> None:
        """Tell a listener nothing more."""
        self._listeners.pop(listener, None)


class MemoryWakeups:
    """One listener for hints."""

    def __init__(self, board: Board, clock: Clock) -> None:
        self._board = board
        self._clock = clock
        self._hints: set[Hint] = set()
        self._given = asyncio.Event()

    def give(self, hint: Hint) -> None:
        """Take a hint; whoever waits is woken."""
        self._hints.add(hint)
        self._given.set()

    async def wait(self, timeout_seconds: float) -> frozenset[Hint]:
        """Return the hints since the last call, or wait for one; empty at the time-out."""
        if not self._hints:
            await self._given_within(timeout_seconds)
        hints = frozenset(self._hints)
        self._hints.clear()
        self._given.clear()
        return hints

    async def close(self) -> None:
        """Stop listening."""
        self._board.forget(self)

    async def _given_within(self, seconds: float) -> None:
        given = asyncio.ensure_future(self._given.wait())
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((given, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            given.cancel()
            timer.cancel()
            await asyncio.gather(given, timer, return_exceptions=True)
