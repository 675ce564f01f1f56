"""A worker that is asked to stop finishes what it can and hands the rest back."""

import asyncio
import os
import signal
import time
from pathlib import Path

from integration.worker.bench import Bench, until
from integration.worker.sample_app import registry
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock
from mainspring.domain.errors import MigrationNeeded
from mainspring.domain.status import TaskStatus
from mainspring.ports.workers import WorkerState


async def test_running_tasks_finish_and_nothing_new_starts(bench: Bench) -> None:
    agent = bench.start(concurrency=5)
    running = await bench.submit_many([("asleep", {"log": bench.log, "seconds": 0.5})] * 5)
    await bench.noted("start", 5)
    waiting = await bench.submit_many([("asleep", {"log": bench.log, "seconds": 0.5})] * 5)
    await asyncio.wait_for(agent.drain(5), 3)
    assert {(await bench.get(task_id)).status for task_id in running} == {TaskStatus.COMPLETED}
    for task_id in waiting:
        task = await bench.get(task_id)
        assert (task.status, task.attempt_count) == (TaskStatus.PENDING, 0)
    assert bench.count("start") == 5
    assert await bench.store.workers() == []


async def test_what_does_not_finish_in_the_grace_goes_back_uncharged(bench: Bench) -> None:
    agent = bench.start()
    ids = await bench.submit_many(
        [
            ("asleep", {"log": bench.log}),
            ("stubborn", {"log": bench.log}),
            ("block_thread", {"log": bench.log, "seconds": 60}),
            ("in_process", {"log": bench.log}),
        ]
    )
    await bench.noted("start", 4)
    started = time.monotonic()
    await agent.drain(0.5)
    assert time.monotonic() - started < 1.5
    for task_id in ids:
        task = await bench.get(task_id)
        assert (task.status, task.attempt_count, task.attempts) == (TaskStatus.PENDING, 0, ())


async def test_a_second_request_means_now(bench: Bench) -> None:
    agent = bench.start()
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    patient = asyncio.create_task(agent.drain(60))
    await until(lambda: agent._attempts.is_draining)
    started = time.monotonic()
    await agent.drain(0)
    await patient
    assert time.monotonic() - started < 1.0
    assert (await bench.get(task_id)).status is TaskStatus.PENDING


async def test_cancelling_a_worker_hands_everything_back(bench: Bench) -> None:
    agent = bench.start()
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    running = bench.agents.pop()[1]
    running.cancel()
    await asyncio.wait([running], timeout=3)
    assert running.cancelled()
    task = await bench.get(task_id)
    assert (task.status, task.attempt_count) == (TaskStatus.PENDING, 0)
    assert agent.stats.released == 1


async def test_a_signal_to_the_runners_is_for_the_agent_to_decide(bench: Bench) -> None:
    agent = bench.start()
    ids = await bench.submit_many(
        [
            ("asleep", {"log": bench.log, "seconds": 1.0}),
            ("block_thread", {"log": bench.log, "seconds": 1.0}),
        ]
    )
    await bench.noted("start", 2)
    for pid in bench.pids():
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    assert {task.status for task in await bench.ended(*ids)} == {TaskStatus.COMPLETED}
    assert agent.stats.runners_crashed == 0


async def test_a_worker_is_registered_while_it_works(bench: Bench) -> None:
    bench.start(concurrency=7, threads=3, solo_processes=2)
    await until(bench.store.workers)
    (worker,) = await bench.store.workers()
    assert (worker.slots, worker.draining) == (12, False)


class WithoutRegister(MemoryStore):
    """Answers about tasks alone, as a database does whose table of workers is gone."""

    is_gone = False

    async def beat(self, worker: WorkerState) -> None:
        if self.is_gone:
            raise MigrationNeeded("there is no table of workers")
        await super().beat(worker)

    async def leave(self, worker_id: str) -> None:
        if self.is_gone:
            raise MigrationNeeded("there is no table of workers")
        await super().leave(worker_id)


async def test_a_worker_that_cannot_take_its_leave_finishes_what_runs_and_ends(
    tmp_path: Path,
) -> None:
    store = WithoutRegister(SystemClock())
    bench = Bench(store, registry(), tmp_path)
    agent = bench.start()
    task_id = await bench.submit("asleep", {"log": bench.log, "seconds": 0.5})
    await bench.noted("start")
    store.is_gone = True
    await asyncio.wait_for(agent.drain(5), 10)
    assert (await bench.get(task_id)).status is TaskStatus.COMPLETED
    await bench.close()
