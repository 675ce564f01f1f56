"""Open connections, kept for the next one who asks.

To take one that is free and to give it back takes no turn of the event loop: with one statement
each, a task more for every return would cost more than the statement's own work on our side.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from mainspring.domain.errors import StoreUnavailable

Opener = Callable[[], Awaitable[asyncpg.Connection]]

IDLE_SECONDS: Final = 60.0
"""A connection that nobody needed for so long is closed."""


class KeptConnections:
    """At most `size` connections, opened on demand. Belongs to one event loop."""

    def __init__(self, opener: Opener, size: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self._opener = opener
        self._size = size
        self._idle_seconds = idle_seconds
        self._free: deque[tuple[asyncpg.Connection, float]] = deque()
        """The one used last is at the end and goes first: what is not needed ages."""

        self._taken: set[asyncpg.Connection] = set()
        self._opening = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self._returned = asyncio.Event()

    def take_free(self) -> asyncpg.Connection | None:
        """Take a connection that is open and free, if there is one and nobody waits for it."""
        if self._turns or self._closed:
            return None
        return self._pop_free()

    async def take(self, seconds: float) -> asyncpg.Connection:
        """Take a connection: a free one, a new one, or the next that is given back.

        Raises `TimeoutError` after so many seconds, or what opening one raised.
        """
        async with asyncio.timeout(seconds):
            while True:
                if self._closed:
                    raise StoreUnavailable("the store is closed; open a new one")
                connection = self._pop_free()
                if connection is not None:
                    return connection
                if len(self._taken) + self._opening < self._size:
                    return await self._open()
                await self._turn()

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Return a connection that was taken, whatever became of it."""
        self._taken.discard(connection)
        if self._closed or connection.is_closed():
            connection.terminate()
        else:
            now = asyncio.get_running_loop().time()
            self._free.append((connection, now))
            if self._sweep is None:
                self._sweep_in(self._idle_seconds)
        if self._turns:
            self._next_turn()
        if self._closed:
            self._returned.set()

    def drop_free(self) -> None:
        """Cut what is free: new connections are opened for those who come next."""
        free = [connection for connection, _ in self._free]
        self._free.clear()
        for connection in free:
            connection.terminate()

    async def close(self, seconds: float) -> None:
        """Close what is free, wait so long for what is taken, and cut the rest."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self._turns:
            self._next_turn()
        free = [connection for connection, _ in self._free]
        self._free.clear()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(connection.close() for connection in free))
                while self._taken or self._opening:
                    self._returned.clear()
                    await self._returned.wait()
        finally:
            for connection in (*free, *self._taken):
                connection.terminate()

    def _pop_free(self) -> asyncpg.Connection | None:
        while self._free:
            connection, _ = self._free.pop()
            if not connection.is_closed():
                self._taken.add(connection)
                return connection
        return None

    async def _open(self) -> asyncpg.Connection:
        self._opening += 1
        try:
            connection = await self._opener()
        except BaseException:
            # Whoever waits may have more luck.
            self._next_turn()
            raise
        finally:
            self._opening -= 1
            self._returned.set()
        self._taken.add(connection)
        return connection

    async def _turn(self) -> None:
        """Wait until a connection was given back, first come first served."""
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except BaseException:
            # The turn may have come in the very moment in which its owner gave up.
            if turn.done() and not turn.cancelled():
                self._next_turn()
            raise

    def _next_turn(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _sweep_in(self, seconds: float) -> None:
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._idle_seconds
        while self._free and self._free[0][1] <= oldest:
            self._free.popleft()[0].terminate()
        self._sweep = None
        if self._free:
            self._sweep_in(max(self._free[0][1] - oldest, 0.1))
