"""Whether the store answers, as those are told who watch a process."""

import asyncio
from typing import Final, NamedTuple

from mainspring.domain.errors import MainspringError
from mainspring.ports.store import Store

READY_SECONDS: Final = 2.0
"""A store that takes longer to answer a small question is not ready."""

OK: Final = "ok"
DEGRADED: Final = "degraded"
UNAVAILABLE: Final = "unavailable"


class Readiness(NamedTuple):
    """How a process is: `ok`, `degraded` (it works, without a part), or `unavailable`."""

    status: str
    parts: dict[str, str]
    """Each part that it needs: `ok`, or a word for what is wrong with it."""


async def store_readiness(store: Store) -> Readiness:
    """Ask the store a small question and say how that went."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await store.queue_names()
    except (MainspringError, TimeoutError) as error:
        code = error.code if isinstance(error, MainspringError) else "store_unavailable"
        return Readiness(UNAVAILABLE, {"store": code})
    # Whoever sends work here shall go on: the rest of the store is there.
    lost = {name.partition(" (")[0]: "store_unavailable" for name in store.missing()}
    return Readiness(DEGRADED if lost else OK, {"store": OK, **lost})


async def role_readiness(store: Store, role: str, state: str) -> Readiness:
    """Say how the store is, and a role that works only while its state is `ok`."""
    found = await store_readiness(store)
    status = found.status if state == OK else UNAVAILABLE
    return Readiness(status, {role: state, **found.parts})
