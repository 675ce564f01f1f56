"""A look at the server, for people who want to know whether it is as it should be."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg
import msgspec

from mainspring.adapters.postgres.failures import translated
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.queries import QUERIES

_FACTS: Final = QUERIES["server_facts"]


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of itself."""

    version: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    synchronous_standby_names: str
    max_connections: int
    read_only: bool
    oldest_snapshot_seconds: float
    now: datetime


async def server_facts(dsn: str) -> ServerFacts:
    """Ask the server; raises `StoreUnavailable` when it cannot be reached."""
    connection = await connect(dsn, session=False)
    try:
        row = await connection.fetchrow(_FACTS.sql)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()
    assert row is not None
    return ServerFacts(**dict(row))


class Way(NamedTuple):
    """Where a URL leads."""

    is_pooled: bool
    """PgBouncer or the like stands between."""

    database: str
    """The same for all ways to the same database of the same server."""


async def way_to(dsn: str) -> Way:
    """Find out where a URL leads; raises `StoreUnavailable` when it leads nowhere."""
    connection = await connect(dsn, session=False)
    try:
        row = await connection.fetchrow(QUERIES["whereabouts"].sql)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translated(error, wrote=False) from error
    finally:
        await connection.close()
    assert row is not None
    return Way(row["pid"] != connection.get_server_pid(), row["database"])


@asynccontextmanager
async def held_snapshot(dsn: str) -> AsyncIterator[None]:
    """Hold a transaction with a snapshot open, as a forgotten session or a long report does."""
    connection = await connect(dsn, session=False)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetchval(QUERIES["look"].sql)
            yield
    finally:
        await connection.close()
