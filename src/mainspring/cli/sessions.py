"""Running one piece of work on the task store from a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.config import Settings
from mainspring.core.session import Session
from mainspring.wiring.store import open_session

T = TypeVar("T")


def with_session(settings: Settings, work: Callable[[Session], Awaitable[T]]) -> T:
    """Open the task store, do the work and close it again."""

    async def run() -> T:
        session = await open_session(settings)
        try:
            return await work(session)
        finally:
            await session.close()

    return asyncio.run(run())
