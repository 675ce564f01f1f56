"""What a database knows of being a shard."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, server_of, translated
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.shards import (
    ShardLabel,
    ShardMap,
    check_label,
    check_same,
    even_map,
    newest_map,
)

_READ: Final = QUERIES["read_shard"].sql
_WRITE: Final = QUERIES["write_shard"].sql
_HOLDS: Final = QUERIES["holds_anything"].sql


async def label_in(connection: asyncpg.Connection) -> ShardLabel | None:
    """Return which shard the database of a connection is."""
    row = await connection.fetchrow(_READ)
    if row is None:
        return None
    return label_of(row)


def label_of(row: asyncpg.Record) -> ShardLabel:
    """Return a row of `read_shard` as what it says."""
    shard_map = ShardMap(tuple(row["owners"]), row["version"], row["shards"])
    return ShardLabel(
        row["installation"],
        row["shard"],
        shard_map,
        tuple(row["moving"]),
        is_settled=not row["unsettled"],
        lends=row["lends"],
    )


async def read_label(dsn: str) -> ShardLabel | None:
    """Return which shard a database is; None where it is not one of several."""
    connection = await connect(dsn)
    try:
        return await label_in(connection)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False, server=server_of(dsn)) from error
    finally:
        await connection.close()


async def label_shards(dsns: Sequence[str], installation: UUID) -> list[ShardLabel]:
    """Make databases that have the schema the shards of one installation, in this order, unless
    they are, and return what they are. `installation` is the name of a new one.

    Safe to repeat. Raises `InvalidConfiguration` for databases that are others, or hold tasks.
    """
    known = [await read_label(dsn) for dsn in dsns]
    labelled = [label for label in known if label is not None]
    for place, label in enumerate(known):
        if label is not None:
            check_label(label, place, len(dsns))
    check_same(labelled)
    if labelled:
        installation = labelled[0].installation
    shard_map = newest_map(labelled) if labelled else even_map(len(dsns))
    fresh = [place for place, label in enumerate(known) if label is None]
    for place in fresh:
        await check_empty(dsns[place], place)
    for place in fresh:
        await write_label(dsns[place], ShardLabel(installation, place, shard_map))
    return [ShardLabel(installation, place, shard_map) for place in range(len(dsns))]


async def fetch_truth(dsn: str, statement: str) -> bool:
    """Return what a statement says of a database."""
    connection = await connect(dsn)
    try:
        return bool(await connection.fetchval(statement))
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False, server=server_of(dsn)) from error
    finally:
        await connection.close()


async def check_empty(dsn: str, place: int) -> None:
    """Refuse a database that holds tasks or schedules."""
    if await fetch_truth(dsn, _HOLDS):
        raise InvalidConfiguration(
            f"number {place + 1} of the databases in database_url holds tasks or schedules of an "
            "installation of its own; a new shard is empty, so name another database, or divide "
            "what there is with `mainspring shards add`"
        )


async def write_label(dsn: str, label: ShardLabel) -> None:
    """Make a database a shard, unless it is one."""
    connection = await connect(dsn)
    try:
        await connection.execute(
            _WRITE,
            label.installation,
            label.map.version,
            label.shard,
            list(label.map.owners),
            label.map.count,
            not label.is_settled,
        )
        written = await label_in(connection)
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=True, server=server_of(dsn)) from error
    finally:
        await connection.close()
    if written is not None:
        check_same([label, written])
