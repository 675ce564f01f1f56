"""The task store and the sessions on it."""

import importlib
from collections.abc import Sequence
from typing import Final

from mainspring.adapters.postgres import migrate as migrations
from mainspring.adapters.postgres.queued import open_queued_store
from mainspring.adapters.postgres.shards import label_shards
from mainspring.adapters.postgres.store import open_store as open_postgres
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.config import Settings, shard_settings, split_urls
from mainspring.core.session import Session
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.whole import WholeStore
from mainspring.wiring.connecting import direct_url, pool_options
from mainspring.wiring.ready_queue import open_ready_queue

_SHARDS: Final = "mainspring.wiring.shards"


def system_clock() -> Clock:
    """Return the clock of this machine."""
    return SystemClock()


def system_ids() -> IdSource:
    """Return the source of ids of this process."""
    return SystemIds()


async def open_session(settings: Settings) -> Session:
    """Open a session for the running event loop.

    Raises `StoreUnavailable` or `SetupError`s: no schema, another schema, an unsupported server.
    """
    store = await open_store(settings)
    return Session(store, SystemClock(), SystemIds(), settings.submit_timeout_seconds)


async def open_store(settings: Settings) -> WholeStore:
    """Open the task store, with the ready queue if there is one; raises as `open_session` does."""
    if len(split_urls(settings.database_url)) > 1:
        # What it needs is not loaded by those who have one database.
        store: WholeStore = await importlib.import_module(_SHARDS).open_shards(settings)
        return store
    queue = open_ready_queue(settings)
    if queue is not None:
        limit_seconds = settings.level_limit_seconds
        return await open_queued_store(pool_options(settings), queue, limit_seconds=limit_seconds)
    return await open_postgres(pool_options(settings), limit_seconds=settings.level_limit_seconds)


async def migrate(settings: Settings) -> list[str]:
    """Bring the database, or each of the shards, to the schema of this version; return the names
    of the steps done. New databases become shards by it, in their order.
    """
    parts = shard_settings(settings)
    done = [
        _mark(place, parts) + _name(step)
        for place, part in enumerate(parts)
        for step in await migrations.migrate(direct_url(part))
    ]
    if len(parts) > 1:
        await label_shards([direct_url(part) for part in parts], SystemIds().task_id())
    return done


async def grant_services(settings: Settings, role: str) -> None:
    """Give a database role what the services need; raises `InvalidValue` if there is none."""
    for part in shard_settings(settings):
        await migrations.grant_services(direct_url(part), role)


async def migration_plan(settings: Settings) -> list[tuple[str, str]]:
    """Return what `migrate` would do: the name and the SQL of each step."""
    parts = shard_settings(settings)
    return [
        (_mark(place, parts) + _name(step), step.sql)
        for place, part in enumerate(parts)
        for step in await migrations.plan(direct_url(part))
    ]


def _mark(place: int, parts: Sequence[Settings]) -> str:
    return f"shard {place + 1}: " if len(parts) > 1 else ""


def _name(step: migrations.Migration) -> str:
    return f"{step.number:04}_{step.name}"
