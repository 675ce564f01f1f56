"""Reads on a streaming replica that lags, stands still, dies, or is none."""

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from api.rpc import Client as GrpcClient
from api.rpc import rpc_started
from fixtures.postgres import PostgresServer
from fixtures.replica import Replica, replica_of
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.api._generated import tasks_pb2
from mainspring.client import Client
from mainspring.config import Settings
from mainspring.domain.errors import InvalidValue
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import NewTask
from mainspring.ports.store import TaskFilter
from mainspring.wiring.connecting import pool_options
from mainspring.wiring.replicas import replica_findings

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def replica(postgres_server: PostgresServer) -> Iterator[Replica]:
    with replica_of(postgres_server) as running:
        yield running


class Scene:
    """A store with a replica, and a look behind it."""

    def __init__(self, settings: Settings, replica: Replica, name: str) -> None:
        self.settings = settings
        self.store = PostgresStore(pool_options(settings))
        self.replica = replica
        self.name = name

    async def on_replica(self, statement: str) -> object:
        connection = await asyncpg.connect(self.replica.dsn(self.name))
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def submitted(self) -> NewTask:
        task = NewTask(id=SystemIds().task_id(), task_type="t")
        await self.store.submit([task])
        return task

    async def caught_up(self) -> None:
        """Wait until the replica shows everything."""
        async with asyncio.timeout(15):
            while not (await replica_findings(self.settings))[0][0]:
                await CLOCK.sleep(0.1)


@pytest.fixture
async def scene(
    postgres_server: PostgresServer, replica: Replica, tmp_path: Path
) -> AsyncIterator[Scene]:
    name = await postgres_server.recycled_database()
    settings = dataclasses.replace(
        Settings(),
        database_url=postgres_server.dsn(name),
        database_read_url=replica.dsn(name),
        read_staleness_seconds=2.0,
        data_dir=tmp_path,
    )
    scene = Scene(settings, replica, name)
    await scene.caught_up()
    yield scene
    await scene.store.close()


async def listed(scene: Scene) -> set[object]:
    return {task.task_id for task in (await scene.store.page(TaskFilter(), 100)).tasks}


async def test_lists_come_from_the_replica_and_decisions_do_not(scene: Scene) -> None:
    store, replica = scene.store, scene.store._reads
    old = await scene.submitted()
    await scene.caught_up()
    assert await listed(scene) == {old.id}
    assert await replica.fetch_old(*_get(old)) is not None
    # It stands still: what it has is known to be old as soon as the primary writes on.
    await scene.on_replica("SELECT pg_wal_replay_pause()")
    new = await scene.submitted()
    found = await store.get(new.id, max_staleness=60.0)
    assert found is not None
    assert found.status is TaskStatus.PENDING
    assert await listed(scene) == {old.id}
    await store.cancel([old.id])
    stale = await store.get(old.id, max_staleness=60.0)
    assert stale is not None
    assert stale.status is TaskStatus.PENDING
    for bound in (0.0, 0.001):
        now = await store.get(old.id, max_staleness=bound)
        assert now is not None
        assert now.status is TaskStatus.CANCELLED
    async with asyncio.timeout(10):
        while await listed(scene) != {old.id, new.id}:
            await CLOCK.sleep(0.1)
    (is_well, detail), *_ = await replica_findings(scene.settings)
    assert not is_well
    assert "behind and not catching up" in detail
    await scene.on_replica("SELECT pg_wal_replay_resume()")
    await scene.caught_up()
    async with asyncio.timeout(10):
        while await replica.fetch_old(*_get(new), staleness_seconds=0.5) is None:
            await CLOCK.sleep(0.05)
    again = await store.get(old.id, max_staleness=0.5)
    assert again is not None
    assert again.status is TaskStatus.CANCELLED


async def test_a_caller_of_the_api_says_how_old_an_answer_may_be(scene: Scene) -> None:
    database_url, read_url = scene.settings.database_url, scene.settings.database_read_url
    async with (
        rpc_started(database_url, database_read_url=read_url) as rpc,
        Client(rpc.api.url, await rpc.api.key()) as client,
        rpc.client() as grpc_client,
    ):
        task = await scene.submitted()
        (store,) = rpc.api.store.parts()
        assert isinstance(store, PostgresStore)
        async with asyncio.timeout(15):
            while await store._reads.fetch_old(*_get(task), staleness_seconds=60.0) is None:
                await CLOCK.sleep(0.05)
        await scene.on_replica("SELECT pg_wal_replay_pause()")
        try:
            await scene.store.cancel([task.id])
            await _ask_all(task, client, grpc_client)
        finally:
            await scene.on_replica("SELECT pg_wal_replay_resume()")


async def _ask_all(task: NewTask, client: Client, grpc_client: GrpcClient) -> None:
    given = {"task_id": str(task.id)}
    assert (await client.get(task.id, max_staleness=60))["status"] == "pending"
    old = await grpc_client.call("TaskService.Get", **given, max_staleness=60.0)
    assert old.status == tasks_pb2.TASK_STATUS_PENDING
    assert (await client.get(task.id))["status"] == "cancelled"
    now = await grpc_client.call("TaskService.Get", **given)
    assert now.status == tasks_pb2.TASK_STATUS_CANCELLED
    for bound in (-1.0, math.nan, 1e9):
        refused = await grpc_client.refused("TaskService.Get", **given, max_staleness=bound)
        assert (refused.status, refused.field) == ("INVALID_ARGUMENT", "max_staleness")
        with pytest.raises(InvalidValue, match="max_staleness is"):
            await client.get(task.id, max_staleness=bound)


async def test_a_server_that_is_no_replica_is_not_read(scene: Scene) -> None:
    settings = dataclasses.replace(scene.settings, database_read_url=scene.settings.database_url)
    store = PostgresStore(pool_options(settings))
    task = await scene.submitted()
    assert await store._reads.fetch_old(*_get(task), staleness_seconds=60.0) is None
    assert await store.get(task.id, max_staleness=60.0) is not None
    assert "is no replica" in (await replica_findings(settings))[0][1]
    await store.close()


async def test_a_killed_replica_is_no_error(scene: Scene) -> None:
    task = await scene.submitted()
    await scene.caught_up()
    assert await listed(scene) == {task.id}
    scene.replica.kill()
    began = CLOCK.monotonic()
    for _ in range(20):
        assert await listed(scene) == {task.id}
        assert await scene.store.get(task.id, max_staleness=60.0) is not None
        assert [state.ready for state in await scene.store.queues()] == [1]
    assert CLOCK.monotonic() - began < 3
    assert "not used, the primary answers" in (await replica_findings(scene.settings))[0][1]


def _get(task: NewTask) -> tuple[Any, ...]:
    return QUERIES["get"], None, task.id
