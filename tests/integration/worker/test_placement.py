"""Two workers on a real store: who runs what needs a label."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.worker.bench import Bench, until
from integration.worker.sample_app import registry
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.domain.placement import SILENT_SECONDS, branch_of
from mainspring.worker.agent import BEAT_SECONDS, Agent

pytestmark = pytest.mark.postgres

GPU = branch_of("default", ("gpu",))


@pytest.fixture
async def pg_bench(database: str, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(PostgresStore(PoolOptions(dsn=database)), registry(), tmp_path)
    yield bench
    await bench.close()


async def registered(bench: Bench, count: int) -> None:
    async def are_there() -> bool:
        return len(await bench.store.workers()) == count

    await until(are_there)


async def test_an_idle_worker_gets_the_tasks_at_once_and_a_busy_one_when_it_is_gone(
    pg_bench: Bench,
) -> None:
    def start(*queues: str) -> Agent:
        return pg_bench.start(labels=("gpu",), queues=("default", *queues), concurrency=20)

    busy = start("own")
    idle = start()
    await registered(pg_bench, 2)
    asleep = {"log": pg_bench.log, "seconds": 60.0}
    await pg_bench.submit_many([("asleep", asleep)] * 10, queue="own")
    await pg_bench.noted("start", 10)
    (plain,) = await pg_bench.ended(await pg_bench.submit("noop", queue="default"))
    assert (plain.labels, plain.placement) == ((), None)

    started = time.monotonic()
    for _ in range(10):
        await pg_bench.ended(await pg_bench.submit("echo", {"value": 1}, queue=GPU))
    # Nobody had to wait for anybody's patience, unless the machine stood still meanwhile.
    assert time.monotonic() - started < 4
    assert busy.stats.claimed + idle.stats.claimed == 21
    assert idle.stats.claimed >= 8

    await idle.drain(0)
    await pg_bench.ended(await pg_bench.submit("echo", {"value": 1}, queue=GPU))
    assert busy.stats.claimed + idle.stats.claimed == 22


async def test_a_burst_is_shared(pg_bench: Bench) -> None:
    queues = ("own", "other")
    agents = [
        pg_bench.start(labels=("gpu",), queues=("default", queue), concurrency=20)
        for queue in queues
    ]
    await registered(pg_bench, 2)
    # Each has shown that it is ready.
    await pg_bench.ended(*[await pg_bench.submit("noop", queue=queue) for queue in queues])
    asleep = {"log": pg_bench.log, "seconds": 0.5}
    tasks = await pg_bench.submit_many([("asleep", asleep)] * 20, queue=GPU)
    await pg_bench.ended(*tasks)
    claimed = [agent.stats.claimed for agent in agents]
    assert sum(claimed) == 22
    assert min(claimed) >= 8


def test_a_worker_is_counted_on_for_three_beats() -> None:
    assert SILENT_SECONDS == 3 * BEAT_SECONDS
