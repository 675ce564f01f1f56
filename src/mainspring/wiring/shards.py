"""The task store in several databases."""

import asyncio
from collections.abc import Sequence
from functools import partial

from mainspring.adapters.postgres.failures import server_of
from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.postgres.store import PostgresStore, shard_label
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, shard_settings
from mainspring.domain.errors import MigrationNeeded, StoreUnavailable
from mainspring.domain.shards import (
    ShardLabel,
    check_installation,
    check_label,
    check_place,
    check_same,
    newest_map,
)
from mainspring.wiring.connecting import database_url, pool_options
from mainspring.wiring.ready_queue import open_ready_queue


async def open_shards(settings: Settings) -> ShardedStore:
    """Open the store on all databases that are named; those that do not answer join when they do.

    Raises `StoreUnavailable` when none does, and `SetupError`s: a database without the schema, of
    another installation, or in another place of the list than it was.
    """
    parts = shard_settings(settings)
    found = await asyncio.gather(
        *(_look(part, place, len(parts)) for place, part in enumerate(parts)),
        return_exceptions=True,
    )
    labels = _labels(found)
    check_same(labels)
    shards = [_shard(part, place, labels[0]) for place, part in enumerate(parts)]
    for shard, answer in zip(shards, found, strict=True):
        if isinstance(answer, StoreUnavailable):
            shard.lose(answer.message)
    store = ShardedStore(shards, newest_map(labels))
    store.follow_map(SystemClock())
    return store


def _shard(part: Settings, place: int, known: ShardLabel) -> Shard:
    store = _store(part, place)
    return Shard(
        place,
        shard_name(part, place),
        store,
        SystemClock(),
        partial(_look_again, part, place, known),
        store.label,
    )


async def shard_labels(settings: Settings) -> list[tuple[str, ShardLabel | StoreUnavailable]]:
    """Return what each database says of itself, with its name; raises as `open_shards` does."""
    parts = shard_settings(settings)
    found = await asyncio.gather(
        *(_look(part, place, len(parts)) for place, part in enumerate(parts)),
        return_exceptions=True,
    )
    check_same(_labels(found))
    return [
        (shard_name(part, place), answer)
        for place, (part, answer) in enumerate(zip(parts, found, strict=True))
        if isinstance(answer, ShardLabel | StoreUnavailable)
    ]


def shard_name(settings: Settings, place: int) -> str:
    """Return how a shard is called before people."""
    url = database_url(settings)
    name = url.partition("?")[0].rpartition("/")[2]
    return f"shard {place + 1} ({server_of(url)}/{name})"


def _store(settings: Settings, place: int) -> PostgresStore:
    options, limit_seconds = pool_options(settings), settings.level_limit_seconds
    queue = open_ready_queue(settings, place + 1)
    if queue is None:
        return PostgresStore(options, limit_seconds=limit_seconds)
    return QueuedStore(options, queue, limit_seconds=limit_seconds)


async def _look(settings: Settings, place: int, count: int) -> ShardLabel:
    label = await _label(settings, place)
    check_label(label, place, count)
    return label


async def _look_again(settings: Settings, place: int, known: ShardLabel) -> None:
    """Look whether it is still the same shard; the map may have changed meanwhile."""
    label = await _label(settings, place)
    check_place(label, place)
    check_installation([known, label])


async def _label(settings: Settings, place: int) -> ShardLabel:
    label = await shard_label(pool_options(settings))
    if label is None:
        raise MigrationNeeded(
            f"number {place + 1} of the databases in database_url is no shard yet; run "
            "`mainspring migrate` with all of them"
        )
    return label


def _labels(found: Sequence[ShardLabel | BaseException]) -> list[ShardLabel]:
    labels = [answer for answer in found if isinstance(answer, ShardLabel)]
    outages = [answer for answer in found if isinstance(answer, BaseException)]
    for outage in outages:
        if not labels or not isinstance(outage, StoreUnavailable):
            raise outage
    return labels
