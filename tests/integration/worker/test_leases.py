"""Whatever a handler does, its lease is kept; and once it is lost, nothing of it counts."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from integration.worker.bench import Bench, until
from integration.worker.cut_store import CutStore
from integration.worker.sample_app import registry
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Settlement

LEASE = {"lease_seconds": 1.0, "heartbeat_seconds": 0.3}
STEPS_PER_SECOND = 25_000_000
"""About what adding up takes; 3 s of it hold the interpreter for long enough on any machine."""


@pytest.mark.parametrize("handler", ["block_thread", "busy_async", "busy_thread", "add_up"])
async def test_a_handler_that_blocks_for_three_leases_runs_once(bench: Bench, handler: str) -> None:
    agent = bench.start(**LEASE)
    bench.rescue_expired()
    payload = (
        {"log": bench.log, "steps": 3 * STEPS_PER_SECOND}
        if handler == "add_up"
        else {"log": bench.log, "seconds": 3.2}
    )
    ids = await bench.submit_many(
        [(handler, payload), ("asleep", {"log": bench.log, "seconds": 1})]
    )
    for task in await bench.ended(*ids):
        assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert bench.count("start") == 2
    assert (agent.stats.lost, agent.stats.stale) == (0, 0)


async def test_a_short_outage_costs_nothing(cut_bench: Bench) -> None:
    store = cut_store(cut_bench)
    agent = cut_bench.start(**LEASE)
    long, short = await cut_bench.submit_many(
        [
            ("asleep", {"log": cut_bench.log, "seconds": 1.5}),
            ("asleep", {"log": cut_bench.log, "seconds": 0.2}),
        ]
    )
    await cut_bench.noted("start", 2)
    store.cut()
    await cut_bench.noted("end")
    await until(lambda: store.refused >= 4)
    store.heal()
    for task in await cut_bench.ended(long, short):
        assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert (agent.stats.lost, agent.stats.stale, agent.stats.abandoned) == (0, 0, 0)


async def test_progress_of_an_outage_is_stored_after_it(cut_bench: Bench, tmp_path: Path) -> None:
    store, gate = cut_store(cut_bench), tmp_path / "gate"
    cut_bench.start()
    task_id = await cut_bench.submit("says_once", {"log": cut_bench.log, "gate": str(gate)})
    await cut_bench.noted("start")
    store.cut()
    gate.touch()
    await until(lambda: store.refused_progress >= 2)
    store.heal()

    async def is_shown() -> bool:
        progress = (await cut_bench.get(task_id)).progress
        return progress is not None and bytes(progress) == b'"half"'

    await until(is_shown, 5)


async def test_an_outage_longer_than_the_lease_stops_the_handler_in_time(
    cut_bench: Bench,
) -> None:
    store = cut_store(cut_bench)
    agent = cut_bench.start(**LEASE)
    task_id = await cut_bench.submit("asleep", {"log": cut_bench.log})
    await cut_bench.noted("start")
    store.cut()
    await cut_bench.noted("stopped", seconds=1.3)
    await until(lambda: agent.stats.lost == 1)
    store.heal()
    assert (await cut_bench.get(task_id)).status is TaskStatus.RUNNING
    cut_bench.rescue_expired()
    await cut_bench.noted("start 2")


async def test_an_ending_whose_answer_was_lost_is_no_stale_one(cut_bench: Bench) -> None:
    store = cut_store(cut_bench)
    agent = cut_bench.start()
    store.lose_answers(1)
    (task,) = await cut_bench.ended(await cut_bench.submit("echo", {"value": 1}))
    assert task.status is TaskStatus.COMPLETED
    await until(lambda: agent.stats.repeated == 1)
    assert (agent.stats.stale, agent.stats.completed) == (0, 0)


async def test_a_result_that_the_store_refuses_fails_its_task_alone(cut_bench: Bench) -> None:
    cut_store(cut_bench).refuse_result('"poison"')
    cut_bench.start()
    good = await cut_bench.submit_many([("echo", {"value": n}) for n in range(20)])
    bad = await cut_bench.submit("echo", {"value": "poison"})
    (task,) = await cut_bench.ended(bad)
    assert task.status is TaskStatus.FAILED
    assert "cannot be stored" in (task.last_error or "")
    assert {task.status for task in await cut_bench.ended(*good)} == {TaskStatus.COMPLETED}


async def test_what_was_lost_while_it_ran_is_dropped(bench: Bench) -> None:
    """The lease is taken away behind the worker's back, as after a long stop of the machine."""
    agent = bench.start(lease_seconds=0.6, heartbeat_seconds=100.0)
    await bench.submit("stubborn", {"log": bench.log, "seconds": 2.0}, max_retries=5)
    await bench.noted("start")
    await until(lambda: agent.stats.lost == 1, 5)
    assert (agent.stats.completed, agent.stats.stale) == (0, 0)


def cut_store(bench: Bench) -> CutStore:
    assert isinstance(bench.store, CutStore)
    return bench.store


class DeafToEndings(MemoryStore):
    """Does everything but store endings, as a database does whose history somebody has locked."""

    is_deaf = True

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if self.is_deaf:
            raise StoreUnavailable("the history is locked")
        return await super().settle(settlements)


@pytest.fixture
async def deaf_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(DeafToEndings(SystemClock()), registry(), tmp_path)
    yield bench
    await bench.close()


async def test_what_has_ended_is_kept_until_its_ending_is_stored(deaf_bench: Bench) -> None:
    store = deaf_bench.store
    assert isinstance(store, DeafToEndings)
    deaf_bench.start(lease_seconds=0.6, heartbeat_seconds=0.2)
    deaf_bench.rescue_expired()
    task_id = await deaf_bench.submit("echo", {"value": 1, "log": deaf_bench.log})
    await deaf_bench.noted("run")
    first = (await deaf_bench.get(task_id)).lease_expires_at
    assert first is not None

    async def has_outlived_its_first_lease() -> bool:
        expires_at = (await deaf_bench.get(task_id)).lease_expires_at
        return expires_at is not None and expires_at > first + timedelta(seconds=1)

    await until(has_outlived_its_first_lease, 5)
    store.is_deaf = False
    (task,) = await deaf_bench.ended(task_id)
    assert (task.status, task.attempt_count, task.attempts) == (TaskStatus.COMPLETED, 1, ())
    assert deaf_bench.count("run") == 1


async def test_a_worker_whose_endings_are_not_stored_takes_no_more_tasks(
    deaf_bench: Bench,
) -> None:
    store = deaf_bench.store
    assert isinstance(store, DeafToEndings)
    agent = deaf_bench.start(claim_limit=5, concurrency=5, processes=1)
    ids = await deaf_bench.submit_many([("noop", {})] * 600)
    await until(lambda: agent._attempts.completer.is_behind)
    await until(lambda: (agent.stats.busy, agent.stats.waiting) == (0, 0))
    assert agent.stats.claimed < 300
    store.is_deaf = False
    await deaf_bench.ended(*ids)
