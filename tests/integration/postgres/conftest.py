"""A store on a fresh database, for tests of what only PostgreSQL does."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    opened = await open_store(PoolOptions(dsn=database))
    yield opened
    await opened.close()


@pytest.fixture
async def sql(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()
