"""Dividing the limits of queues anew, when shards are added.

The limits as a whole are kept in the last of the new shards before any share is changed, so whoever
comes again after half of it sets the same shares.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import asyncpg

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, server_of, translated
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.adapters.postgres.pool import connect
from mainspring.domain.errors import InvalidConfiguration, InvalidValue
from mainspring.domain.limits import Limit, divided, together

_LIMIT_COLUMNS: Final = 4
_QUEUE_COLUMNS: Final = 5


async def keep_wholes(dsns: Sequence[str], last: str, count: int) -> None:
    """Write the limits that databases have together into the last one of `count`.

    Raises `InvalidConfiguration` for a limit that is too low to be divided among so many.
    """
    found = [
        {row["name"]: _limit(row) for row in await _fetch(dsn, "parts_of_limits")} for dsn in dsns
    ]
    names = sorted({name for limits in found for name in limits})
    wholes = {name: together([limits.get(name, Limit()) for limits in found]) for name in names}
    wholes = {name: limit for name, limit in wholes.items() if not limit.is_none}
    _parts(wholes, count)
    connection = await connect(last)
    try:
        async with connection.transaction():
            await connection.execute(STATEMENTS["forget_wholes"].sql)
            await connection.execute(STATEMENTS["keep_wholes"].sql, *_limit_columns(wholes))
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=True, server=server_of(last)) from error
    finally:
        await connection.close()


async def divide_wholes(dsns: Sequence[str]) -> None:
    """Give every shard what holds for a queue and its groups everywhere, unless it knows the queue,
    and its share of the limits that were kept; then forget these.

    Safe to repeat. The shards that were there before come first, so shares never add up to more.
    """
    await _tell_queues(dsns)
    wholes = {row["queue"]: _limit(row) for row in await _fetch(dsns[-1], "wholes")}
    if wholes:
        for dsn, part in zip(dsns, _parts(wholes, len(dsns)), strict=True):
            await _fetch(dsn, "set_parts", *_limit_columns(part))
    await _fetch(dsns[-1], "forget_wholes")


def _parts(wholes: Mapping[str, Limit], count: int) -> list[dict[str, Limit]]:
    """Return the limits of queues in each of so many shards."""
    parts: list[dict[str, Limit]] = [{} for _ in range(count)]
    for name, whole in wholes.items():
        try:
            shares = divided(whole, count)
        except InvalidValue as error:
            raise InvalidConfiguration(
                f"the limit of the queue {name} is too low for so many shards: {error.message}. "
                f"Change it with `mainspring queues limit {name}` and run this again"
            ) from error
        for part, share in zip(parts, shares, strict=True):
            part[name] = share
    return parts


async def _tell_queues(dsns: Sequence[str]) -> None:
    queues: dict[str, tuple[Any, ...]] = {}
    groups: dict[tuple[str, str], tuple[Any, ...]] = {}
    for dsn in dsns:
        for name, paused, *limit in await _fetch(dsn, "queues"):
            _, was_paused, *known = queues.get(name, (name, False, None, None, None))
            is_known = any(one is not None for one in known)
            queues[name] = (name, paused or was_paused, *(known if is_known else limit))
        for row in await _fetch(dsn, "groups"):
            groups.setdefault((row["queue"], row["group_key"]), tuple(row))
    for dsn in dsns:
        await _fetch(dsn, "add_queues", *_columns(queues.values(), _QUEUE_COLUMNS))
        await _fetch(dsn, "add_groups", *_columns(groups.values(), _QUEUE_COLUMNS))


def _limit(row: asyncpg.Record) -> Limit:
    return Limit(concurrency=row["concurrency"], rate=row["rate"], burst=row["burst"])


def _limit_columns(limits: Mapping[str, Limit]) -> list[list[Any]]:
    rows = [(name, one.concurrency, one.rate, one.burst) for name, one in limits.items()]
    return _columns(rows, _LIMIT_COLUMNS)


def _columns(rows: Iterable[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]


async def _fetch(dsn: str, name: str, *arguments: object) -> list[asyncpg.Record]:
    connection = await connect(dsn)
    statement = STATEMENTS[name]
    try:
        return list(await connection.fetch(statement.sql, *arguments))
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=statement.writes, server=server_of(dsn)) from error
    finally:
        await connection.close()
