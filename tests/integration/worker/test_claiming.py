"""A worker asks as often as it has to, and no more."""

import asyncio
import time

from integration.worker.bench import Bench, until
from integration.worker.cut_store import CutStore
from mainspring.domain.limits import Limit


async def claims_within(bench: Bench, seconds: float) -> int:
    assert isinstance(bench.store, CutStore)
    before = bench.store.claims
    await asyncio.sleep(seconds)
    return bench.store.claims - before


async def test_an_idle_worker_looks_a_few_times_a_second(cut_bench: Bench) -> None:
    agent = cut_bench.start()
    await cut_bench.ended(await cut_bench.submit("noop"))
    before = time.process_time()
    assert 3 <= await claims_within(cut_bench, 1.0) <= 8
    assert time.process_time() - before < 0.05
    assert agent.stats.claimed == 1


async def test_a_full_worker_does_not_ask_again_and_again(cut_bench: Bench) -> None:
    """There is more async work than room, while the other kinds of handlers have none."""
    agent = cut_bench.start(concurrency=20)
    await cut_bench.submit_many([("asleep", {"log": cut_bench.log, "seconds": 3.0})] * 50)
    await cut_bench.noted("start", 20)
    await until(lambda: agent.stats.busy == 20)
    assert await claims_within(cut_bench, 1.0) <= 12
    assert agent.stats.claimed == 20


async def test_a_worker_that_is_cut_off_asks_less_and_less(cut_bench: Bench) -> None:
    cut_bench.start()
    assert isinstance(cut_bench.store, CutStore)
    await cut_bench.ended(await cut_bench.submit("noop"))
    cut_bench.store.cut()
    assert await claims_within(cut_bench, 2.0) <= 10
    cut_bench.store.heal()
    await cut_bench.ended(await cut_bench.submit("noop"), seconds=5)


async def test_tasks_that_become_due_one_by_one_are_claimed_together(cut_bench: Bench) -> None:
    cut_bench.start()
    await cut_bench.ended(await cut_bench.submit("noop"))
    assert isinstance(cut_bench.store, CutStore)
    before = cut_bench.store.claims
    started = time.monotonic()
    ids = [
        await cut_bench.submit("noop", delay_seconds=0.5 + number / 500) for number in range(500)
    ]
    await cut_bench.ended(*ids)
    elapsed = time.monotonic() - started
    assert cut_bench.store.claims - before <= elapsed * 220
    late = [
        (task.started_at - task.scheduled_at).total_seconds()
        for task in [await cut_bench.get(task_id) for task_id in ids]
        if task.started_at is not None
    ]
    assert min(late) >= 0
    assert sorted(late)[-10] <= 0.1


async def test_work_of_every_kind_goes_on_under_a_backlog_of_one(cut_bench: Bench) -> None:
    cut_bench.start(concurrency=5)
    await cut_bench.submit_many([("good", {"log": cut_bench.log, "name": "x"})] * 500)
    await cut_bench.noted("good", 20)
    others = await cut_bench.submit_many(
        [("noop_thread", {}), ("quick_process", {"value": 1}), ("noop_thread", {})]
    )
    await cut_bench.ended(*others, seconds=3)
    assert cut_bench.count("done") < 500


async def test_solo_tasks_that_have_no_place_are_left_to_others(cut_bench: Bench) -> None:
    agent = cut_bench.start(solo_processes=1)
    await cut_bench.submit_many([("in_process", {"log": cut_bench.log, "seconds": 30})] * 5)
    await cut_bench.noted("start")
    await until(lambda: agent.stats.released == agent.stats.claimed - 1)
    helper = cut_bench.start(solo_processes=4)
    await until(lambda: helper.stats.busy == 4)
    assert (agent.stats.busy, agent.stats.waiting) == (1, 0)


async def test_room_under_a_limit_is_used_as_soon_as_it_is_made(cut_bench: Bench) -> None:
    cut_bench.start()
    await cut_bench.store.set_limits("default", group=Limit(concurrency=1))
    await cut_bench.ended(await cut_bench.submit("noop", group_key="acme"))
    started = time.monotonic()
    await cut_bench.ended(*[await cut_bench.submit("noop", group_key="acme") for _ in range(30)])
    # Looking every 200 ms alone would take six seconds.
    assert time.monotonic() - started < 4.0
