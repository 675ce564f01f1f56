"""Servers of a Redis Cluster are killed, stopped and cut off from most of the others under load:
work goes on from the database, and from the cluster as soon as it is whole.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faults.stage import Stage, eventually
from fixtures.valkey import ValkeyCluster, ValkeyServer
from mainspring import Mainspring, Settings
from mainspring.domain.errors import MainspringError
from mainspring.ports.ready_queue import ReadyQueueUnavailable
from mainspring.wiring.redis import redis_link, redis_ready_queue

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

SLICES = 6
BATCH = 30
FED_SECONDS = 20.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ValkeyCluster]:
    cluster = ValkeyCluster(tmp_path / "cluster", replicas=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def settings(stage: Stage, cluster: ValkeyCluster) -> Settings:
    return Settings(
        database_url=stage.database_url,
        ready_queue="redis",
        redis_url=cluster.url,
        redis_slices=SLICES,
    )


@pytest.fixture
async def load(stage: Stage, settings: Settings) -> AsyncIterator["Load"]:
    app = Mainspring(settings)
    load = Load(stage, app, settings)
    yield load
    await load.end()
    await app.close()


class Load:
    """Submits all the time, and waits for what is to happen meanwhile."""

    def __init__(self, stage: Stage, app: Mainspring, settings: Settings) -> None:
        self._stage = stage
        self._app = app
        self._queue = redis_ready_queue(settings)
        self._submitting: asyncio.Task[None] | None = None
        self._is_ending = False
        self.fed: dict[str, float] = {}

    def begin(self) -> None:
        self._submitting = asyncio.create_task(self._submit())

    async def _submit(self) -> None:
        while not self._is_ending:
            await self._stage.submit(self._app, BATCH // 10, "work")
            await asyncio.sleep(0.02)

    async def work_goes_on(self) -> None:
        """What is submitted from here on is done, whatever Redis does."""
        seen = len(self._stage.events("done"))
        await self._stage.happens("done", seen + BATCH)

    async def is_fed(self, after: str) -> None:
        """All of the queue is there again, soon after the servers are."""
        started = time.monotonic()
        while await self._fed() < SLICES:
            assert time.monotonic() < started + FED_SECONDS, after
            await asyncio.sleep(0.05)
        self.fed[after] = round(time.monotonic() - started, 2)

    async def _fed(self) -> int:
        try:
            return (await self._queue.figures()).fed
        except MainspringError:
            return 0

    async def end(self) -> None:
        self._is_ending = True
        if self._submitting is not None:
            await self._submitting
        await self._queue.close()


async def leads(server: ValkeyServer) -> None:
    await eventually(lambda: "role:master" in server.ask("INFO", "replication"), "a new first")


async def follows(server: ValkeyServer) -> None:
    await eventually(lambda: "role:slave" in server.ask("INFO", "replication"), "a replica")


async def test_whatever_becomes_of_a_cluster_no_task_is_lost_or_runs_again(
    stage: Stage, cluster: ValkeyCluster, settings: Settings, load: Load
) -> None:
    chosen = {
        "ready_queue": "redis",
        "redis_url": settings.redis_url,
        "redis_slices": SLICES,
    }
    programs = [stage.start("scheduler", **chosen), stage.start_worker(**chosen)]
    await programs[0].says("the ready queue is fed", times=SLICES)
    await programs[1].says("worker runs")
    load.begin()
    await load.work_goes_on()
    (one, other, third), (one_copy, other_copy, _) = cluster.nodes, cluster.replicas

    one.kill()
    await load.work_goes_on()
    await leads(one_copy)
    await load.is_fed("a server was killed")
    one.start()
    await follows(one)

    other.pause()
    try:
        await load.work_goes_on()
        await leads(other_copy)
        await load.is_fed("a server stood still")
    finally:
        other.resume()
    await follows(other)
    await load.work_goes_on()

    # The one that is left knows that it is cut off from most of the others.
    for server in (one_copy, other_copy, one, other):
        server.kill()
    await eventually(lambda: "cluster_state:fail" in third.ask("CLUSTER", "INFO"), "all is down")
    link = redis_link(Settings(redis_url=f"redis+cluster://{third.address}"))
    with pytest.raises(ReadyQueueUnavailable, match="the cluster is down"):
        await link.servers()
    await link.close()
    await load.work_goes_on()
    for server in (one_copy, other_copy, one, other):
        server.start()
    await eventually(lambda: cluster.knows_all(third), "the cluster is whole")
    await load.is_fed("the cluster was down")
    await load.work_goes_on()

    await load.end()
    await stage.settled()
    print(f"fed again after {load.fed} s")
    assert (await stage.history()).violations() == []
    assert len(stage.events("start")) == len(stage.accepted)
    for program in programs:
        assert program.process.poll() is None
        assert "Traceback" not in program.said
