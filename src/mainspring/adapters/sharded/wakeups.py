"""Hints from every shard."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mainspring.ports.store import Hint, Wakeups


class ShardedWakeups:
    """`ports.store.Wakeups` on one listener for each shard."""

    def __init__(self, listeners: Sequence[Wakeups]) -> None:
        self._listeners = tuple(listeners)
        self._waits: dict[int, asyncio.Task[frozenset[Hint]]] = {}

    async def wait(self, timeout_seconds: float) -> frozenset[Hint]:
        """Return the hints since the last call, or wait for one; empty at the time-out."""
        loop = asyncio.get_running_loop()
        for number, listener in enumerate(self._listeners):
            # A wait that is left over may end earlier than this one: whoever waits looks again.
            if number not in self._waits:
                self._waits[number] = loop.create_task(listener.wait(timeout_seconds))
        await asyncio.wait(self._waits.values(), return_when=asyncio.FIRST_COMPLETED)
        hints: frozenset[Hint] = frozenset()
        for number, wait in tuple(self._waits.items()):
            if wait.done():
                del self._waits[number]
                hints |= wait.result()
        return hints

    async def close(self) -> None:
        """Stop listening."""
        for wait in self._waits.values():
            wait.cancel()
            with suppress(asyncio.CancelledError):
                await wait
        for listener in self._listeners:
            await listener.close()
