"""Adding shards to an installation, which may have been one whole database before."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, server_of, translated
from mainspring.adapters.postgres.moving.dividing import divide_wholes, keep_wholes
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.shards import check_empty, fetch_truth, read_label, write_label
from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.shards import (
    ShardLabel,
    ShardMap,
    check_count,
    check_label,
    check_place,
    check_same,
    newest_map,
)

_CHANGE: Final = QUERIES["change_map"].sql
_SETTLE: Final = QUERIES["settle_map"].sql
_MOVES: Final = QUERIES["moves_anything"].sql


async def add_shards(dsns: Sequence[str], installation: UUID) -> list[ShardLabel]:
    """Make shards of the empty databases at the end of a list, which keep no partition yet, and
    return what all are. What comes before them may be one whole installation, which becomes the
    first shard; `installation` is a name for it then. All must have the schema.

    The limits of queues are divided among all of them.

    Safe to repeat. Raises `InvalidConfiguration` for databases that are others, or hold tasks, and
    for a limit that is too low for so many shards.
    """
    known = await _looked_at(dsns)
    if known[-1] is None:
        there = [dsn for dsn, label in zip(dsns, known, strict=True) if label is not None]
        await keep_wholes(there or dsns[:1], dsns[-1], len(dsns))
    labelled = [label for label in known if label is not None]
    if labelled:
        installation, before = labelled[0].installation, newest_map(labelled)
    else:
        before = ShardMap((0,) * PARTITIONS, shards=1)
        await write_label(dsns[0], ShardLabel(installation, 0, before))
    # Who comes again after half of it finds the new map in the last shard, where it began.
    after = before if before.count == len(dsns) else before.widened(len(dsns))
    for place in reversed(range(len(dsns))):
        if known[place] is None and place:
            label = ShardLabel(installation, place, after, is_settled=False)
            await write_label(dsns[place], label)
        else:
            await _execute(dsns[place], _CHANGE, after.version, list(after.owners), after.count)
    # The last one is settled when all is done.
    if known[-1] is None or not known[-1].is_settled:
        await divide_wholes(dsns)
    for dsn in dsns:
        await _execute(dsn, _SETTLE, after.version)
    return [ShardLabel(installation, place, after) for place in range(len(dsns))]


async def _looked_at(dsns: Sequence[str]) -> list[ShardLabel | None]:
    """Return what the databases are, if all can be shards in this order."""
    check_count(len(dsns))
    known = [await read_label(dsn) for dsn in dsns]
    labelled = [label for label in known if label is not None]
    for label in labelled:
        if label.map.count > len(dsns):
            check_label(label, label.shard, len(dsns))
    for place, one in enumerate(known):
        if one is not None:
            check_place(one, place)
        elif place or labelled:
            await check_empty(dsns[place], place)
    check_same(labelled)
    for dsn in dsns:
        if await fetch_truth(dsn, _MOVES):
            raise InvalidConfiguration(
                "partitions are just moving; finish that with `mainspring shards move --resume` "
                "first"
            )
    return known


async def _execute(dsn: str, statement: str, *arguments: object) -> None:
    connection = await connect(dsn)
    try:
        await connection.execute(statement, *arguments)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=True, server=server_of(dsn)) from error
    finally:
        await connection.close()
