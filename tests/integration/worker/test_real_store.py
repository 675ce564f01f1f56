"""Worker processes on a real PostgreSQL: killed, stopped past their lease, sharing transactions."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psutil
import pytest

from integration.worker.bench import SAMPLE_APP, Bench, until
from integration.worker.sample_app import registry
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import FailureKind

pytestmark = pytest.mark.postgres

AGENT = Path(__file__).with_name("agent_process.py")
Spawn = Callable[[float], Awaitable[Process]]


@pytest.fixture
async def pg_bench(database: str, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(PostgresStore(PoolOptions(dsn=database)), registry(), tmp_path)
    yield bench
    await bench.close()


@pytest.fixture
async def spawn(database: str) -> AsyncIterator[Spawn]:
    """Starts workers in processes of their own."""
    processes: list[Process] = []

    async def start(lease_seconds: float) -> Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, AGENT, "--dsn", database, "--app", SAMPLE_APP),
            *("--lease", str(lease_seconds)),
            stdout=PIPE,
            stderr=PIPE,
        )
        processes.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def figures(process: Process) -> tuple[dict[str, Any], str]:
    """Drain a worker and return its figures and its log."""
    process.send_signal(signal.SIGTERM)
    out, errors = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0, errors.decode()
    return msgspec.json.decode(out), errors.decode()


async def test_a_killed_worker_leaves_no_process_and_its_tasks_run_again(
    pg_bench: Bench, spawn: Spawn
) -> None:
    process = await spawn(1.0)
    ids = await pg_bench.submit_many(
        [
            ("asleep", {"log": pg_bench.log, "seconds": 30}),
            ("block_thread", {"log": pg_bench.log, "seconds": 30}),
            ("busy_async", {"log": pg_bench.log, "seconds": 30}),
            ("quick_process", {"value": 1}),
        ]
    )
    await pg_bench.noted("start", 3)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    await until(lambda: not any(map(is_alive, children)), 2)
    pg_bench.rescue_expired()
    await until(lambda: has_waited(pg_bench, ids[:3]), 5)
    for task_id in ids[:3]:
        task = await pg_bench.get(task_id)
        assert task.attempt_count == 1
        assert [attempt.kind for attempt in task.attempts] == [FailureKind.LEASE_EXPIRED]


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def has_waited(bench: Bench, ids: list[Any]) -> bool:
    statuses = await bench.store.statuses(ids)
    return set(statuses.values()) == {TaskStatus.PENDING}


async def test_a_worker_that_slept_past_its_lease_changes_nothing(
    pg_bench: Bench, spawn: Spawn
) -> None:
    process = await spawn(1.0)
    long = await pg_bench.submit("asleep", {"log": pg_bench.log, "seconds": 30})
    short = await pg_bench.submit("asleep", {"log": pg_bench.log, "seconds": 0.5})
    await pg_bench.noted("start", 2)
    # Only the agent stops: the runner goes on and reports an ending that has become worthless.
    process.send_signal(signal.SIGSTOP)
    await pg_bench.noted("end")
    pg_bench.rescue_expired()
    await until(lambda: has_waited(pg_bench, [long, short]), 5)
    before = [await pg_bench.get(task_id) for task_id in (long, short)]
    # Nobody may take them before the sleeper has had its say.
    await pg_bench.store.pause("default")
    process.send_signal(signal.SIGCONT)
    await pg_bench.noted("stopped", seconds=1)
    stats, log = await figures(process)
    assert (stats["lost"] + stats["stale"], stats["completed"]) == (2, 0)
    assert stats["stale"] == 0 or "stale_lease" in log
    assert [await pg_bench.get(task_id) for task_id in (long, short)] == before


async def test_a_worker_drains_on_a_signal(pg_bench: Bench, spawn: Spawn) -> None:
    process = await spawn(60.0)
    ids = await pg_bench.submit_many([("asleep", {"log": pg_bench.log, "seconds": 0.5})] * 20)
    await pg_bench.noted("start", 20)
    stats, _ = await figures(process)
    assert (stats["completed"], stats["released"], stats["stale"]) == (20, 0, 0)
    statuses = await pg_bench.store.statuses(ids)
    assert set(statuses.values()) == {TaskStatus.COMPLETED}


@pytest.mark.parametrize("commit", [True, False])
async def test_a_handler_completes_its_task_in_its_own_transaction(
    pg_bench: Bench, database: str, commit: bool
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE TABLE effects (task_id uuid)")
    agent = pg_bench.start()
    payload = {"dsn": database, "commit": commit}
    task_id = await pg_bench.submit("completes_in_postgres", payload, max_retries=0)
    (task,) = await pg_bench.ended(task_id)
    effects = await connection.fetch("SELECT task_id FROM effects")
    await connection.close()
    if commit:
        assert task.status is TaskStatus.COMPLETED
        assert [row["task_id"] for row in effects] == [task_id]
        await until(lambda: agent.stats.completed == 1)
    else:
        assert task.status is TaskStatus.FAILED
        assert effects == []
    assert agent.stats.stale == 0


@pytest.mark.slow
async def test_memory_stays_flat_over_many_tasks(pg_bench: Bench) -> None:
    agent = pg_bench.start()
    agents: list[int] = []
    runners: list[int] = []
    for _ in range(5):
        for _ in range(10):
            await pg_bench.submit_many([("noop", {"value": 1})] * 1000)
        done = (len(agents) + 1) * 10_000
        await until(lambda done=done: agent.stats.completed >= done, 60)  # type: ignore[misc]
        here = psutil.Process()
        agents.append(here.memory_info().rss)
        runners.append(sum(child.memory_info().rss for child in here.children()))
    assert len(agent._attempts) == 0
    assert agents[-1] - agents[0] < 8 * 2**20
    assert runners[-1] - runners[0] < 4 * 2**20
