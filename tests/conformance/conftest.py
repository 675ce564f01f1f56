"""Each test of this folder runs once for each adapter of the store."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Any

import asyncpg
import pytest

from conformance.scene import Scene, Trap
from fixtures.postgres import PostgresServer
from fixtures.valkey import ValkeyServer
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.redis.link import RedisLink, RedisOptions
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemChance, SystemClock
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.shards import ShardMap
from mainspring.ports.coordination import Fence
from mainspring.ports.store import Claim, ClaimRequest, Store
from mainspring.scheduler.feeder import Feeder
from mainspring.scheduler.loop import Loop
from manual_clock import ManualClock

Opener = Callable[[], Store]

SHARDS = ShardMap(tuple(partition % 2 for partition in range(PARTITIONS)))
"""Neighbouring partitions in different shards, so that few tasks are enough to meet both."""

TABLES = (
    "tasks",
    "dead_letters",
    "task_history",
    "queues",
    "gates",
    "groups",
    "lines",
    "buckets",
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
def second_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The other shard of all tests that have two."""
    name = asyncio.run(postgres_server.create_database(migrated=True))
    yield postgres_server.dsn(name)
    asyncio.run(postgres_server.drop_database(name))


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


QUEUED = frozenset({"claim", "groups", "order", "queues", "reschedule", "rescue"})
"""The modules that also run with a ready queue before the store, and on two stores with one each:
what claims may find."""

SHARDED = frozenset(
    {
        "dead_letters",
        "fences",
        "keys",
        "queue_limits",
        "queues",
        "reads",
        "unique",
        "wakeups",
        "workers",
    }
)
"""The modules that also run on two databases: what is put together from answers of both, and what
each decides by itself. All run on two stores in memory, which show the same sooner."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "adapter" in metafunc.fixturenames:
        adapters = ["memory", pytest.param("postgres", marks=pytest.mark.postgres)]
        name = metafunc.module.__name__.rpartition("test_")[2]
        if name in QUEUED:
            adapters.append(pytest.param("redis", marks=pytest.mark.postgres))
        if metafunc.definition.get_closest_marker("one_store") is None:
            adapters.append("sharded-memory")
            if name in SHARDED:
                adapters.append(pytest.param("sharded-postgres", marks=pytest.mark.postgres))
            if name in QUEUED:
                adapters.append(pytest.param("sharded-redis", marks=pytest.mark.postgres))
        metafunc.parametrize("adapter", adapters)


@pytest.fixture
def dsn(request: pytest.FixtureRequest, adapter: str, needs_fresh_database: bool) -> str | None:
    """The database of the test; None: the test runs on the store in memory."""
    if adapter.endswith("memory"):
        return None
    name = "database" if needs_fresh_database else "shared_database"
    return str(request.getfixturevalue(name))


@pytest.fixture
def dsns(request: pytest.FixtureRequest, adapter: str, dsn: str | None) -> list[str]:
    """The databases of the test."""
    known = [] if dsn is None else [dsn]
    if adapter in {"sharded-postgres", "sharded-redis"}:
        known.append(str(request.getfixturevalue("second_database")))
    return known


@pytest.fixture
async def opener(
    request: pytest.FixtureRequest,
    adapter: str,
    dsns: list[str],
    clock: ManualClock,
    trap: Trap,
) -> AsyncIterator[Opener]:
    """Opens stores on one and the same set of tasks."""
    if adapter == "memory":
        memory = MemoryStore(clock, hooks=trap)
        yield lambda: memory
        return
    if adapter == "sharded-memory":
        parts = [MemoryStore(clock, hooks=trap), MemoryStore(clock, hooks=trap)]
        yield lambda: sharded(parts, clock)
        return
    for dsn in dsns:
        await remove_rows(dsn)
    opened: list[Store] = []

    def open_part(number: int, dsn: str) -> PostgresStore:
        options = PoolOptions(dsn=dsn, size=4)
        if not adapter.endswith("redis"):
            return PostgresStore(options, hooks=trap, now=clock.now)
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        prefix: str = request.getfixturevalue("valkey_prefix")
        link = RedisLink(RedisOptions(url=server.url), SystemClock())
        queue = RedisReadyQueue(link, f"{prefix}:shard-{number}")
        return FedStore(options, queue, hooks=trap, now=clock.now)

    def open_store() -> Store:
        parts = [open_part(number, dsn) for number, dsn in enumerate(dsns)]
        opened.append(sharded(parts, clock) if len(parts) > 1 else parts[0])
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


class SoleOwner:
    """Owns the one slice, for ever."""

    def fence(self) -> Fence:
        return Fence({0: 1})

    def refuse(self, partitions: Collection[int]) -> None:
        raise AssertionError(partitions)


class FedStore(QueuedStore):
    """A store that feeds its ready queue before each claim, and then believes it."""

    async def claim(self, request: ClaimRequest) -> Claim:
        await self.publisher.sent()
        clock = SystemClock()
        loop = Loop(clock, SystemChance())
        await Feeder(self.ready_queue, self, SoleOwner(), loop, clock).run_once()
        self._look_at = math.inf
        return await super().claim(request)


def sharded(parts: Sequence[Any], clock: ManualClock) -> Store:
    shards = [
        Shard(number, f"shard {number + 1}", part, clock) for number, part in enumerate(parts)
    ]
    return ShardedStore(shards, SHARDS)


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
