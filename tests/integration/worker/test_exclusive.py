"""Exclusive tasks: none begins without its lock, and none goes on without it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from integration.worker.bench import Bench, until
from integration.worker.sample_app import registry
from mainspring.adapters.memory.locks import MemoryLocks
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock
from mainspring.core.registry import Registry
from mainspring.domain.status import TaskStatus
from mainspring.ports.locks import Grant, LocksUnavailable, Refusal
from mainspring.worker import exclusion

QUICK = {"lease_seconds": 2.0, "heartbeat_seconds": 0.2}
EXCLUSIVE = frozenset({"asleep", "quick_process", "poison"})


class SharedLocks(MemoryLocks):
    """Locks that can be away, and that a worker which ends does not take along."""

    is_away = False
    asked = 0

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.faults: set[str] = set()
        """What fails the next time in a way that nobody foresaw."""

    async def acquire(self, name: str, owner: str, seconds: float) -> Grant | Refusal:
        self.asked += 1
        self._look("acquire")
        return await super().acquire(name, owner, seconds)

    async def extend(self, name: str, owner: str, seconds: float) -> bool:
        self._look("extend")
        return await super().extend(name, owner, seconds)

    async def release(self, name: str, owner: str) -> bool:
        self._look("release")
        return await super().release(name, owner)

    async def is_free(self, task_id: UUID) -> bool:
        name = f"task:{task_id}"
        answer = await MemoryLocks.acquire(self, name, "test", 60.0)
        await MemoryLocks.release(self, name, "test")
        return isinstance(answer, Grant)

    def _look(self, what: str) -> None:
        if self.is_away:
            raise LocksUnavailable("away")
        if what in self.faults:
            self.faults.remove(what)
            raise RuntimeError(what)


@pytest.fixture
def locks() -> SharedLocks:
    return SharedLocks(SystemClock())


@pytest.fixture
async def bench(tmp_path: Path, locks: SharedLocks) -> AsyncIterator[Bench]:
    made = Registry()
    for definition in registry():
        is_exclusive = definition.name in EXCLUSIVE
        made.add(msgspec.structs.replace(definition, exclusive=is_exclusive))
    bench = Bench(MemoryStore(SystemClock()), made, tmp_path)
    bench.locks = locks
    yield bench
    await bench.close()


async def test_the_lock_is_there_while_the_handler_runs_and_no_longer(
    bench: Bench, locks: SharedLocks
) -> None:
    bench.start(**QUICK)
    running = await bench.submit("asleep", {"log": bench.log, "seconds": 0.5})
    await bench.noted("start")
    assert not await locks.is_free(running)
    (task,) = await bench.ended(running)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert await locks.is_free(running)
    ids = await bench.submit_many([("quick_process", {"value": 1})] * 2)
    assert {task.status for task in await bench.ended(*ids)} == {TaskStatus.COMPLETED}


async def test_a_task_whose_lock_somebody_else_has_waits_uncharged(
    bench: Bench, locks: SharedLocks
) -> None:
    bench.start(**QUICK)
    await bench.ended(await bench.submit("noop"))
    payload = {"log": bench.log, "seconds": 0.0}
    held = await bench.submit("asleep", payload, max_retries=0, delay_seconds=0.2)
    assert isinstance(await locks.acquire(f"task:{held}", "other", 1.0), Grant)
    await until(lambda: locks.asked > 1)
    assert bench.lines() == []
    (task,) = await bench.ended(held)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert bench.lines() == ["start 1", "end"]


async def test_without_locks_exclusive_tasks_wait_and_others_do_not(
    bench: Bench, locks: SharedLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusion, "_PAUSE_SECONDS", (0.2, 0.2))
    locks.is_away = True
    bench.start(**QUICK)
    waiting = await bench.submit("asleep", {"log": bench.log, "seconds": 0.0}, max_retries=0)
    await until(lambda: locks.asked > 1)
    await bench.ended(await bench.submit("noop"))
    assert (await bench.get(waiting)).attempt_count == 0
    assert bench.lines() == []
    locks.is_away = False
    (task,) = await bench.ended(waiting)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)


async def test_a_fault_of_the_locks_keeps_no_task_for_ever(
    bench: Bench, locks: SharedLocks
) -> None:
    bench.start(**QUICK)
    locks.faults = {"acquire", "release"}
    (task,) = await bench.ended(await bench.submit("asleep", {"log": bench.log, "seconds": 0.0}))
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert not locks.faults


async def test_a_handler_whose_lock_is_lost_is_stopped_and_its_task_goes_back(
    bench: Bench, locks: SharedLocks
) -> None:
    bench.start(**QUICK)
    task_id = await bench.submit("asleep", {"log": bench.log}, max_retries=0)
    await bench.noted("start")
    locks._locks.clear()
    assert isinstance(await locks.acquire(f"task:{task_id}", "other", 60.0), Grant)
    await bench.noted("stopped")
    task = await bench.get(task_id)
    await until(lambda: locks.asked > 2)
    assert bench.count("start") == 1
    assert await locks.release(f"task:{task_id}", "other")
    assert (task.status in {TaskStatus.PENDING, TaskStatus.RUNNING}, task.max_retries) == (True, 0)


async def test_a_handler_is_stopped_before_its_lock_ends(
    bench: Bench, locks: SharedLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusion, "_PAUSE_SECONDS", (60.0, 60.0))
    bench.start(**QUICK)
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    locks.is_away = True
    loop = asyncio.get_running_loop()
    started = loop.time()
    await bench.noted("stopped")
    assert loop.time() - started < QUICK["lease_seconds"]
    assert not await locks.is_free(task_id)


async def test_a_worker_that_ends_gives_its_locks_up(bench: Bench, locks: SharedLocks) -> None:
    agent = bench.start(**QUICK)
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    await agent.drain(0)
    assert await locks.is_free(task_id)
    task = await bench.get(task_id)
    assert (task.status, task.attempt_count) == (TaskStatus.PENDING, 0)


async def test_the_lock_ends_with_an_attempt_whose_process_dies_or_that_is_cancelled(
    bench: Bench, locks: SharedLocks
) -> None:
    bench.start(**QUICK)
    killed = await bench.submit("poison", {"log": bench.log}, max_retries=0)
    (task,) = await bench.ended(killed)
    assert task.status is TaskStatus.FAILED
    assert await locks.is_free(killed)
    cancelled = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start 1")
    await bench.store.cancel([cancelled])
    (task,) = await bench.ended(cancelled)
    assert task.status is TaskStatus.CANCELLED
    assert await locks.is_free(cancelled)
