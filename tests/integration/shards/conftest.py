"""Two databases that are shards, each behind a proxy that can take it away."""

import asyncio
import dataclasses
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest

from fixtures.postgres import RECYCLED, PostgresServer, free_port
from integration.postgres.proxy import Proxy
from integration.shards.movers import Movers, open_movers
from integration.shards.traffic import Traffic
from mainspring.adapters.system import SystemIds
from mainspring.config import Settings
from mainspring.domain.ids import moved_into
from mainspring.domain.task import NewTask
from mainspring.wiring.store import migrate, open_session

TABLES = (
    *("tasks", "dead_letters", "task_history", "queues", "workers", "idempotency", "schedules"),
    *("ticks", "api_keys", "gates", "groups", "lines", "buckets"),
)


@dataclasses.dataclass
class Reach:
    """A database, and the way to it."""

    direct_dsn: str
    dsn: str
    port: int
    proxy: Proxy
    listener: asyncio.Server

    async def lose(self) -> None:
        """Cut all connections and let nobody connect."""
        self.listener.close()
        await self.proxy.close()

    async def find(self) -> None:
        """Let connections through again."""
        self.listener = await asyncio.start_server(self.proxy.accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        self.listener.close()
        await self.proxy.close()


@dataclasses.dataclass
class Two:
    """Two shards, the partitions 0 to 31 in the first, and settings for them."""

    reaches: list[Reach]
    settings: Settings

    def task(self, shard: int, **fields: Any) -> NewTask:
        """Make a task for one of the shards."""
        return NewTask(**{"id": self.id_in(shard), "task_type": "t", **fields})

    def id_in(self, shard: int) -> UUID:
        return moved_into(SystemIds().task_id(), range(32 * shard, 32 * shard + 32))


async def reach_of(server: PostgresServer, name: str) -> Reach:
    url = urlsplit(server.tcp_dsn(name))
    assert url.hostname is not None
    assert url.port is not None
    proxy = Proxy(url.hostname, url.port)
    listener = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    dsn = f"postgresql://{url.username}:{url.password}@127.0.0.1:{port}{url.path}"
    return Reach(server.dsn(name), dsn, port, proxy, listener)


@pytest.fixture(scope="session")
def shard_names(postgres_server: PostgresServer) -> Iterator[list[str]]:
    """Two databases for all of these tests, which leave nothing behind but rows."""
    names = [asyncio.run(postgres_server.create_database(migrated=True)) for _ in range(2)]
    yield names
    for name in names:
        asyncio.run(postgres_server.drop_database(name))


@pytest.fixture(scope="session")
def bare_names(postgres_server: PostgresServer) -> Iterator[list[str]]:
    """Two databases for the tests that make shards of them, or move what is in them."""
    names = [asyncio.run(postgres_server.create_database(migrated=True)) for _ in range(2)]
    yield names
    for name in names:
        asyncio.run(postgres_server.drop_database(name))


@pytest.fixture
async def dsns(postgres_server: PostgresServer, bare_names: list[str]) -> list[str]:
    """Where two databases are that are as new."""
    dsns = [postgres_server.dsn(name) for name in bare_names]
    for dsn in dsns:
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "SELECT mainspring.guard_partitions_v1('{}'), mainspring.note_changes_v1('{}')"
        )
        await connection.execute(RECYCLED)
        await connection.close()
    return dsns


@pytest.fixture
async def two(
    postgres_server: PostgresServer, shard_names: list[str], tmp_path: Path
) -> AsyncIterator[Two]:
    reaches = [await reach_of(postgres_server, name) for name in shard_names]
    settings = dataclasses.replace(
        Settings(),
        database_url=",".join(reach.dsn for reach in reaches),
        data_dir=tmp_path,
        port=free_port(),
        grpc_port=-1,
        lease_seconds=5.0,
        heartbeat_seconds=0.5,
    )
    await migrate(settings)
    yield Two(reaches, settings)
    for reach in reaches:
        await reach.close()
        connection = await asyncpg.connect(reach.direct_dsn)
        for table in TABLES:
            await connection.execute(f"DELETE FROM mainspring.{table}")
        await connection.execute("DELETE FROM mainspring.counters WHERE name = 'planned_at'")
        await connection.close()


@pytest.fixture
async def fresh(dsns: list[str], tmp_path: Path) -> tuple[Settings, list[str]]:
    """Settings for two new shards, and where they are."""
    settings = dataclasses.replace(
        Settings(), database_url=",".join(dsns), data_dir=tmp_path, grpc_port=-1
    )
    await migrate(settings)
    return settings, dsns


@pytest.fixture
async def traffic(fresh: tuple[Settings, list[str]]) -> AsyncIterator[Traffic]:
    seed = int(os.environ.get("MOVE_SEED", random.randrange(2**32)))
    session = await open_session(fresh[0])
    traffic = Traffic(session, seed)
    await traffic.start()
    yield traffic
    await traffic.stop()
    await session.close()


@pytest.fixture
async def movers(fresh: tuple[Settings, list[str]]) -> AsyncIterator[Movers]:
    async with open_movers(fresh[0].database_url) as movers:
        yield movers
