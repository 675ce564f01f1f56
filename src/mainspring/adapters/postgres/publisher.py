"""Telling the ready queue what happened in the store: after the commit, together, and in vain if
the queue is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar
from uuid import UUID

from mainspring.adapters.postgres.part import Announcer
from mainspring.domain.errors import MainspringError
from mainspring.ports.ready_queue import Entry, ReadyQueue

T = TypeVar("T")

MOST: Final = 20_000
"""What can wait here to be told; feeding the queue makes good for what is dropped."""

_LOOKED_UP: Final = 1000
_LAST_SECONDS: Final = 0.5


class Publisher:
    """Collects what is to be told while the last of it is on its way.

    It is an announcer as well: workers are told that tasks are due when the queue has them.
    """

    def __init__(
        self,
        queue: ReadyQueue,
        sender: Announcer,
        entries_of: Callable[[Sequence[UUID]], Awaitable[list[Entry]]],
    ) -> None:
        self._queue = queue
        self._sender = sender
        self._entries_of = entries_of
        self._put: list[Entry] = []
        self._removed: list[Entry] = []
        self._ids: list[UUID] = []
        self._tokens: list[str] = []
        self._is_ready = False
        self._is_closed = False
        self._sending: asyncio.Task[None] | None = None

    def ready(self) -> None:
        """Say that tasks are due, when the queue has been told which."""
        self._is_ready = True
        self._start()

    def cancel(self) -> None:
        """Say that a running task is to stop."""
        self._sender.cancel()

    def schedule(self) -> None:
        """Say that a schedule changed."""
        self._sender.schedule()

    def put(self, entries: Sequence[Entry]) -> None:
        """Tell of tasks that wait."""
        self._collect(self._put, entries)

    def look_up(self, ids: Sequence[UUID]) -> None:
        """Tell of those of these tasks that wait and are due soon."""
        self._collect(self._ids, ids)

    def remove(self, entries: Sequence[Entry]) -> None:
        """Tell of tasks that do not wait any more."""
        self._collect(self._removed, entries)

    def confirm(self, token: str) -> None:
        """Tell that what was taken under a token has been dealt with."""
        self._collect(self._tokens, [token])

    async def sent(self) -> None:
        """Return when everything that was to be told by now has been, or could not be."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait({self._sending})

    async def close(self) -> None:
        """Tell what is wanted by now, if that is quick, and no more."""
        self._is_closed = True
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=_LAST_SECONDS)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def _collect(self, kept: list[T], more: Sequence[T]) -> None:
        if more and len(kept) < MOST:
            kept.extend(more)
            self._start()

    def _start(self) -> None:
        if not self._is_closed and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._put or self._ids or self._removed or self._tokens or self._is_ready:
            is_ready, self._is_ready = self._is_ready, False
            await self._tell()
            if is_ready:
                self._sender.ready()

    async def _tell(self) -> None:
        put, self._put = self._put, []
        ids, self._ids = self._ids, []
        removed, self._removed = self._removed, []
        tokens, self._tokens = self._tokens, []
        # What the queue does not hear of now, feeding tells it soon.
        with suppress(MainspringError):
            for first in range(0, len(ids), _LOOKED_UP):
                put += await self._entries_of(ids[first : first + _LOOKED_UP])
        # A part of the queue that is away is no reason not to tell the others the rest.
        with suppress(MainspringError):
            if put:
                await self._queue.put(put)
        with suppress(MainspringError):
            if removed:
                await self._queue.remove(removed)
        with suppress(MainspringError):
            if tokens:
                await self._queue.confirm(tokens)
