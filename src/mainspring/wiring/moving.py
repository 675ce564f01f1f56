"""Moving partitions between shards, adding shards."""

import logging
from collections.abc import Callable
from typing import Final

from mainspring.adapters.postgres.moving.adding import add_shards as add
from mainspring.adapters.postgres.moving.mover import Tools
from mainspring.adapters.postgres.moving.relief import Relief
from mainspring.adapters.postgres.moving.service import Removals
from mainspring.adapters.postgres.shards import read_label
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.config import Settings, shard_settings
from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.moves import Move, MoveState, balanced
from mainspring.domain.shards import ShardLabel, check_label, check_same, newest_map
from mainspring.ports.hooks import Hooks, NoHooks
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.move_watch import MoveWatch
from mainspring.wiring.connecting import direct_url
from mainspring.wiring.store import migrate

_LOGGER: Final = logging.getLogger("mainspring.shards")


def removals(
    settings: Settings,
    tell: Callable[[str], None],
    *,
    freeze_seconds: float = 8.0,
    hooks: Hooks | None = None,
) -> Removals:
    """Return what moves partitions; `tell` is told how far it is."""
    parts = shard_settings(settings)
    if len(parts) < 2:  # noqa: PLR2004 - from one to another
        raise InvalidConfiguration(
            "database_url names one database; name all shards, separated by commas. One "
            "installation is divided by `mainspring shards add` with an empty database behind it"
        )
    tools = Tools(SystemClock(), NoHooks() if hooks is None else hooks, tell, freeze_seconds)
    return Removals([direct_url(part) for part in parts], SystemIds(), tools)


async def move_state(settings: Settings) -> MoveState | None:
    """Return how far the move is that is under way or was left; None: there is none.

    Raises `StoreUnavailable` unless every shard answers.
    """
    return await removals(settings, _LOGGER.info).state()


def move_watch(
    settings: Settings, store: ShardedStore, loop: Loop, hooks: Hooks | None = None
) -> MoveWatch:
    """Return the duty that takes over from movers that are gone."""
    dsns = [direct_url(part) for part in shard_settings(settings)]
    # It refuses nothing itself.
    tools = Tools(SystemClock(), NoHooks() if hooks is None else hooks, _LOGGER.info, 0.0)
    return MoveWatch(Relief(dsns, SystemIds(), tools, store.labels), loop)


async def add_shards(settings: Settings) -> list[ShardLabel]:
    """Make shards of the empty databases at the end of the list; return all of them."""
    await migrate_all(settings)
    parts = shard_settings(settings)
    return await add([direct_url(part) for part in parts], SystemIds().task_id())


async def migrate_all(settings: Settings) -> None:
    """Bring every database to the schema of this version, without making shards of them."""
    for part in shard_settings(settings):
        await migrate(part)


async def even_moves(settings: Settings) -> list[Move]:
    """Return the moves after which the shards keep as many partitions each."""
    parts = shard_settings(settings)
    labels = []
    for place, part in enumerate(parts):
        label = await read_label(direct_url(part))
        if label is None:
            raise InvalidConfiguration(
                f"number {place + 1} of the databases in database_url is no shard yet; run "
                "`mainspring shards add`"
            )
        check_label(label, place, len(parts))
        labels.append(label)
    check_same(labels)
    return balanced(newest_map(labels))
