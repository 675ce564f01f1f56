"""One session for each event loop that an app is used in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from mainspring.core.session import Session

Opener = Callable[[], Awaitable[Session]]


class Sessions:
    """Opens a session when an event loop first needs one, and keeps it for that loop.

    Connections belong to the loop they were made in and to the process that made them, so another
    loop, or a forked child, gets a session of its own.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._opened: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[int, asyncio.Task[Session]]
        ] = WeakKeyDictionary()
        self._substitute: Sessions | None = None

    def substitute(self, sessions: "Sessions | None") -> None:
        """Give the sessions of another source until this is called with None."""
        self._substitute = sessions

    async def current(self) -> Session:
        """Return the session of the running event loop, opening it if it is the first use."""
        if self._substitute is not None:
            return await self._substitute.current()
        loop = asyncio.get_running_loop()
        pid, opening = self._opened.get(loop, (0, None))
        if opening is None or pid != os.getpid() or _has_failed(opening):
            opening = loop.create_task(self._open(), name="mainspring-open")
            self._opened[loop] = (os.getpid(), opening)
        if opening.done():
            return opening.result()
        # Several first users share one opening, and none of them may end it for the others.
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Close the session of the running event loop, if there is one. It may be used again."""
        if self._substitute is not None:
            return await self._substitute.close()
        pid, opening = self._opened.pop(asyncio.get_running_loop(), (0, None))
        if opening is not None and pid == os.getpid():
            await asyncio.wait([opening])
            if not _has_failed(opening):
                await opening.result().close()
        return None

    async def _open(self) -> Session:
        return await self._opener()


def _has_failed(opening: asyncio.Task[Session]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
