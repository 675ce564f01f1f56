"""A clock that moves only when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 5, 12, 15, 0, tzinfo=UTC)


class ManualClock:
    """`ports.clock.Clock` in the hands of a test.

    Whoever sleeps on it is woken by `advance`; `sleeping` waits until so many do.
    """

    def __init__(self, start: datetime = START) -> None:
        self._wall = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._changed = asyncio.Event()
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._wall

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self._elapsed + seconds, woken)
        self._sleepers.append(sleeper)
        self._changed.set()
        try:
            await woken
        finally:
            self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass and wake everyone whose time has come."""
        self._elapsed += seconds
        self._wall += timedelta(seconds=seconds)
        for due, woken in self._sleepers:
            if due <= self._elapsed and not woken.done():
                woken.set_result(None)

    def set(self, moment: datetime) -> None:
        """Move the wall time alone, as an administrator or a bad time server does."""
        self._wall = moment

    async def sleeping(self, count: int = 1) -> None:
        """Wait until so many sleep on this clock and none of them is about to wake."""
        while sum(not woken.done() for _, woken in self._sleepers) < count:
            self._changed.clear()
            await self._changed.wait()
