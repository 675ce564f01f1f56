"""Each test of this folder runs once for each adapter of the store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import asyncpg
import pytest

from conformance.scene import Scene, Trap
from fixtures.postgres import PostgresServer
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.ports.store import Store
from manual_clock import ManualClock

Opener = Callable[[], Store]

TABLES = (
    "tasks",
    "dead_letters",
    "task_history",
    "queues",
    "workers",
    "idempotency",
    "schedules",
    "ticks",
    "schedule_counts",
    "webhooks",
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def trap() -> Trap:
    return Trap()


@pytest.fixture(scope="session")
def shared_database(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all tests that leave nothing behind but rows."""
    name = asyncio.run(postgres_server.create_database(migrated=True))
    yield postgres_server.dsn(name)
    asyncio.run(postgres_server.drop_database(name))


@pytest.fixture
def needs_fresh_database() -> bool:
    """Overridden where tests change more than rows."""
    return False


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def dsn(request: pytest.FixtureRequest, needs_fresh_database: bool) -> str | None:
    """The database of the test; None: the test runs on the store in memory."""
    if request.param == "memory":
        return None
    name = "database" if needs_fresh_database else "shared_database"
    return str(request.getfixturevalue(name))


@pytest.fixture
async def opener(dsn: str | None, clock: ManualClock, trap: Trap) -> AsyncIterator[Opener]:
    """Opens stores on one and the same set of tasks."""
    if dsn is None:
        memory = MemoryStore(clock, hooks=trap)
        yield lambda: memory
        return
    await remove_rows(dsn)
    options = PoolOptions(dsn=dsn, size=4)
    opened: list[PostgresStore] = []

    def open_postgres() -> Store:
        opened.append(PostgresStore(options, hooks=trap, now=clock.now))
        return opened[-1]

    yield open_postgres
    for store in opened:
        await store.close()


async def remove_rows(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for table in TABLES:
            await connection.execute(f"DELETE FROM mainspring.{table}")
    finally:
        await connection.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    return opener()


@pytest.fixture
def scene(store: Store, clock: ManualClock, trap: Trap) -> Scene:
    return Scene(store, clock, trap)
