"""Whatever a handler does, its lease is kept; and once it is lost, nothing of it counts."""

import pytest

from integration.worker.bench import Bench, until
from integration.worker.cut_store import CutStore
from mainspring.domain.status import TaskStatus

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
