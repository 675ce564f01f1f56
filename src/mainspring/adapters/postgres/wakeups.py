"""Hints between processes: LISTEN and NOTIFY, either of which may fail without harm."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from mainspring.adapters.postgres.failures import DRIVER_ERRORS
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.pools import Connections
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.domain.errors import MainspringError
from mainspring.ports.store import Hint

CHANNEL: Final = "mainspring"
_ANNOUNCE: Final = QUERIES["announce"]
_APART_SECONDS: Final = 0.01
_LAST_SECONDS: Final = 0.5
_RECONNECT_SECONDS: Final = (0.1, 5.0)
_CHECK_SECONDS: Final = 15.0


class HintSender:
    """Sends hints soon and coalesced: the first at once, then at most one in 10 ms of a kind.

    They are sent on a connection of ours after the commit. Within the caller's transaction they
    would make all commits of the database wait for each other.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._wanted: set[Hint] = set()
        self._sending: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def ready(self) -> None:
        """Say that tasks are due."""
        self._want(Hint.READY)

    def cancel(self) -> None:
        """Say that a running task is to stop."""
        self._want(Hint.CANCEL)

    def schedule(self) -> None:
        """Say that a schedule changed."""
        self._want(Hint.SCHEDULE)

    async def close(self) -> None:
        """Send what is wanted by now, if that is quick, and no more."""
        self._closing.set()
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=_LAST_SECONDS)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def _want(self, hint: Hint) -> None:
        if self._closing.is_set():
            return
        self._wanted.add(hint)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._wanted:
            for hint in sorted(self._wanted):
                self._wanted.discard(hint)
                # A hint that is lost costs its reader one interval of looking for itself.
                with suppress(MainspringError):
                    await self._connections.main.fetch(_ANNOUNCE, CHANNEL, hint.value)
            await _pause(self._closing, _APART_SECONDS)


class PostgresWakeups:
    """One listener, on a connection of its own that is opened at the first wait and kept alive.

    Without a connection that can listen (behind a pooler, with no direct URL) every wait simply
    lasts its time.
    """

    def __init__(self, dsn: str | None) -> None:
        self._dsn = dsn
        self._hints: set[Hint] = set()
        self._given = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> frozenset[Hint]:
        """Return the hints since the last call, or wait for one; empty at the time-out."""
        if self._keeper is None and self._dsn is not None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(self._dsn))
        if not self._hints:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._given.wait()
        hints = frozenset(self._hints)
        self._hints.clear()
        self._given.clear()
        return hints

    async def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        keeper, self._keeper, self._dsn = self._keeper, None, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self, dsn: str) -> None:
        """Listen for ever: connect again whenever the connection ends or stops answering."""
        pause, longest = _RECONNECT_SECONDS
        while True:
            with suppress(MainspringError, *DRIVER_ERRORS):
                await self._listen(dsn)
                pause = _RECONNECT_SECONDS[0]
            # What was sent in between is lost, so whoever waits had better look.
            self._give(Hint.READY)
            self._give(Hint.CANCEL)
            self._give(Hint.SCHEDULE)
            await _pause(self._closing, pause)
            pause = min(pause * 2, longest)

    async def _listen(self, dsn: str) -> None:
        connection = await connect(dsn, application_name="mainspring listener")
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(CHANNEL, self._heard)
            while not ended.is_set():
                try:
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await ended.wait()
                except TimeoutError:
                    # A half-open connection is silent for ever; only a question shows it.
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _heard(self, *message: Any) -> None:
        with suppress(ValueError):
            self._give(Hint(message[-1]))

    def _give(self, hint: Hint) -> None:
        self._hints.add(hint)
        self._given.set()


async def _pause(closing: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until nobody needs what would follow any more."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await closing.wait()
