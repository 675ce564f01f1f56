import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from mainspring.adapters.postgres.migrate import Migration, check, migrate, migrations, plan
from mainspring.domain.errors import MigrationDrift, MigrationNeeded, SetupError, StoreUnavailable

pytestmark = pytest.mark.postgres

INDEXED = Migration(
    9001,
    "indexed",
    "-- no-transaction\n"
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_paused ON mainspring.queues (paused);\n"
    "-- A second statement; with a comment.\n"
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_both ON mainspring.queues (name, paused);\n",
)
BROKEN = Migration(9002, "broken", "CREATE TABLE mainspring.half (id int); SELECT 1 / 0;")


@pytest.fixture
async def any_empty_database(any_postgres_server: PostgresServer) -> AsyncIterator[str]:
    name = await any_postgres_server.create_database(migrated=False)
    yield any_postgres_server.dsn(name)
    await any_postgres_server.drop_database(name)


async def test_an_empty_database_is_brought_to_this_version_once(any_empty_database: str) -> None:
    with pytest.raises(MigrationNeeded, match="mainspring migrate"):
        await check(any_empty_database)
    assert await plan(any_empty_database) == [*migrations()]
    assert await migrate(any_empty_database) == [*migrations()]
    assert await migrate(any_empty_database) == []
    assert await plan(any_empty_database) == []
    await check(any_empty_database)


async def test_a_dry_run_changes_nothing(empty_database: str) -> None:
    await plan(empty_database)
    assert await plan(empty_database) == [*migrations()]


async def test_many_may_start_at_once(empty_database: str) -> None:
    known = (*migrations(), INDEXED)
    done = await asyncio.gather(*(migrate(empty_database, known) for _ in range(3)))
    assert sorted(step for steps in done for step in steps) == [*known]
    await check(empty_database, known)


async def test_a_file_without_transaction_runs_by_statement(
    database: str, sql: asyncpg.Connection
) -> None:
    assert await migrate(database, (*migrations(), INDEXED)) == [INDEXED]
    names = await sql.fetch("SELECT indexname FROM pg_indexes WHERE tablename = 'queues'")
    assert {"queues_paused", "queues_both"} <= {row["indexname"] for row in names}


async def test_a_migration_that_fails_leaves_nothing_behind(
    database: str, sql: asyncpg.Connection
) -> None:
    known = (*migrations(), BROKEN)
    with pytest.raises(Exception, match="division by zero"):
        await migrate(database, known)
    assert await sql.fetchval("SELECT to_regclass('mainspring.half')") is None
    assert await plan(database, known) == [BROKEN]


async def test_an_older_schema_asks_for_a_migration(database: str) -> None:
    with pytest.raises(MigrationNeeded, match=r"older schema.*mainspring migrate"):
        await check(database, (*migrations(), INDEXED))


async def test_a_newer_schema_says_so(database: str) -> None:
    known = (*migrations(), INDEXED)
    await migrate(database, known)
    for use in (check, plan, migrate):
        with pytest.raises(MigrationDrift, match="newer version"):
            await use(database)


async def test_a_changed_file_is_noticed(database: str) -> None:
    first, *others = migrations()
    changed = (first._replace(sql=first.sql + "-- changed"), *others)
    for use in (check, plan, migrate):
        with pytest.raises(MigrationDrift, match=f"{first.number:04}_{first.name}"):
            await use(database, changed)


async def test_a_server_that_is_not_there_is_named_in_one_sentence() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await check("postgresql://mainspring@127.0.0.1:1/mainspring")


async def test_a_user_without_rights_is_told_so(database: str, sql: asyncpg.Connection) -> None:
    await sql.execute("CREATE ROLE weak LOGIN")
    try:
        with pytest.raises(SetupError, match="refuses this user the rights"):
            await plan(database.replace("mainspring@", "weak@"))
    finally:
        await sql.execute("DROP ROLE weak")
