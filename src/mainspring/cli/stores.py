"""Running one piece of work on the store of keys and namespaces from a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.config import Settings
from mainspring.ports.access import Access
from mainspring.wiring.store import open_store

T = TypeVar("T")


def with_store(settings: Settings, work: Callable[[Access], Awaitable[T]]) -> T:
    """Open the store, do the work and close it again."""

    async def run() -> T:
        store = await open_store(settings)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
