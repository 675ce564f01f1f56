"""Running one piece of work on an installation from a command, wherever that is."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mainspring.cli.output import note
from mainspring.config import Settings
from mainspring.core.installation import Installation

T = TypeVar("T")

_ON_STORE: Final = ("mainspring.wiring.store", "open_session")
_BEHIND_API: Final = ("mainspring.client.installation", "open_installation")


def with_installation(settings: Settings, work: Callable[[Installation], Awaitable[T]]) -> T:
    """Open the task store, or the API if one is configured, do the work and close it again."""

    async def run() -> T:
        # What is not used is not loaded, so that commands start quickly.
        module, name = _BEHIND_API if settings.api_url else _ON_STORE
        open_it: Callable[[Settings], Awaitable[Installation]] = getattr(
            importlib.import_module(module), name
        )
        installation = await open_it(settings)
        try:
            done = await work(installation)
            for name in installation.missing():
                note(f"{name} does not answer; what is in it is not among this")
            return done
        finally:
            await installation.close()

    return asyncio.run(run())
