"""The order of starts: rank and age within a lane, weights between lanes, nothing starves."""

import random
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from conformance.scene import Scene, tally
from mainspring.domain.priority import LANES, STEPS, FairShare, Level, lane_after, rank
from mainspring.domain.task import Lease, NewTask

# Between shards the order of starts is not looked at.
pytestmark = pytest.mark.one_store

BACKLOG = {0: 1200, 2: 800, 5: 450, 8: 200}


async def test_within_a_lane_age_and_priority_decide_by_rank(scene: Scene) -> None:
    """8 that waited 21 minutes goes before 7 that waited 10, and after 6 that waited 2."""
    ids = {}
    for priority, pause in ((8, 660), (7, 480), (9, 0), (7, 120)):
        ids[priority, pause] = await scene.submit(priority=priority)
        scene.clock.advance(pause)
    starts = [lease.id for _ in ids for lease in await scene.claim()]
    assert starts == [ids[8, 660], ids[7, 480], ids[7, 120], ids[9, 0]]


async def test_tasks_of_one_priority_start_in_the_order_of_their_time(scene: Scene) -> None:
    moments = list(range(60))
    random.Random(5).shuffle(moments)
    due = {await scene.submit(delay_seconds=float(moment)): moment for moment in moments}
    scene.clock.advance(100)
    starts = [due[lease.id] for _ in range(6) for lease in sorted_claim(await scene.claim(10))]
    assert starts == sorted(moments)


async def test_a_retry_waits_its_turn_from_its_new_time(scene: Scene) -> None:
    first = await scene.submit()
    scene.clock.advance(1)
    second = await scene.submit()
    await scene.store.reschedule(first, scene.clock.now() + timedelta(seconds=5))
    scene.clock.advance(6)
    assert [lease.id for _ in range(2) for lease in await scene.claim()] == [second, first]


@pytest.mark.parametrize("seed", range(6))
async def test_every_start_is_the_one_that_the_rules_name(scene: Scene, seed: int) -> None:
    """One task at a time against a model that looks at all waiting tasks."""
    chance = random.Random(seed)
    tasks = [
        scene.task(
            priority=chance.randrange(11),
            queue=chance.choice(("a", "b", "c")),
            delay_seconds=chance.randrange(57600) / 8,
        )
        for _ in range(120)
    ]
    start = scene.clock.now()
    await scene.store.submit(tasks)
    waiting = {task.id: (task, start + timedelta(seconds=task.delay_seconds)) for task in tasks}
    share = FairShare()
    for _ in range(150):
        scene.clock.advance(chance.choice((0, 1, 30, 120, 600)))
        expected = model_start(waiting, share.served, scene.clock.now())
        leases = await scene.claim(served=share.served)
        share.order([(lease.lane, lease) for lease in leases])
        assert [(lease.lane, rank(lease.priority, lease.scheduled_at)) for lease in leases] == (
            [] if expected is None else [expected]
        )
        for lease in leases:
            del waiting[lease.id]


def model_start(
    waiting: dict[UUID, tuple[NewTask, datetime]], served: dict[Level, int], now: datetime
) -> tuple[Level, datetime] | None:
    best: dict[Level, datetime] = {}
    for task, due in waiting.values():
        if due <= now:
            lane = lane_after(task.priority, (now - due).total_seconds())
            best[lane] = min(
                best.get(lane, datetime.max.replace(tzinfo=due.tzinfo)), rank(task.priority, due)
            )
    if not best:
        return None
    lane = min(best, key=lambda lane: ((served[lane] + 1) * STEPS[lane], LANES.index(lane)))
    return lane, best[lane]


@pytest.mark.parametrize("batches", [[2000], [64] * 32, [7, 1, 200, 33] * 9])
async def test_backlogged_levels_share_by_weight_in_every_window(
    scene: Scene, batches: list[int]
) -> None:
    for priority, count in BACKLOG.items():
        await scene.submit_many(count, priority=priority)
    starts = (await scene.drain(FairShare(), batches))[:2000]
    assert len(starts) == 2000
    for first in range(0, 1001, 5):
        counts = tally(starts[first : first + 1000])
        for lane, share in zip(LANES, (500, 300, 150, 50), strict=True):
            assert abs(counts[lane] - share) <= 2, (first, counts)


async def test_two_workers_share_by_weight_each(scene: Scene) -> None:
    for priority, count in BACKLOG.items():
        await scene.submit_many(count, priority=priority)
    shares = (FairShare(), FairShare())
    starts: list[list[Lease]] = [[], []]
    for n in range(40):
        starts[n % 2] += await scene.drain(shares[n % 2], [25])
    for mine in starts:
        assert tally(mine) == dict(zip(LANES, (250, 150, 75, 25), strict=True))


async def test_the_share_of_an_idle_level_goes_to_the_others(scene: Scene) -> None:
    await scene.submit_many(400, priority=5)
    await scene.submit_many(200, priority=8)
    counts = tally(await scene.drain(FairShare(), [20] * 20))
    assert abs(counts[Level.NORMAL] - 300) <= 2
    assert abs(counts[Level.LOW] - 100) <= 2


async def test_one_level_alone_gets_everything(scene: Scene) -> None:
    await scene.submit_many(50, priority=10)
    assert len(await scene.claim(50)) == 50


async def test_a_level_that_was_idle_cannot_hoard_turns(scene: Scene) -> None:
    share = FairShare()
    await scene.submit_many(300, priority=8)
    await scene.drain(share, [100])
    await scene.submit_many(300, priority=0)
    counts = tally(await scene.drain(share, [110]))
    assert counts[Level.LOW] == pytest.approx(10, abs=2)
    await scene.drain(share, [1000])
    await scene.submit_many(100, priority=0)
    await scene.submit_many(100, priority=2)
    counts = tally(await scene.drain(share, [80]))
    assert counts[Level.CRITICAL] == pytest.approx(50, abs=2)


async def test_one_low_task_starts_while_critical_work_never_ends(scene: Scene) -> None:
    share = FairShare()
    await scene.submit_many(50, priority=0)
    low = await scene.submit(priority=10)
    starts: list[Lease] = []
    for _ in range(6):
        await scene.submit_many(4, priority=0)
        starts += await scene.drain(share, [4])
    assert low in [lease.id for lease in starts[:20]]


async def test_one_task_of_a_quiet_queue_starts_while_another_queue_is_flooded(
    scene: Scene,
) -> None:
    await scene.submit_many(500, queue="noisy")
    scene.clock.advance(1)
    quiet = await scene.submit(queue="quiet")
    scene.clock.advance(1)
    await scene.submit_many(500, queue="noisy")
    starts = [lease.id for _ in range(6) for lease in await scene.claim(100)]
    assert quiet in starts


def sorted_claim(leases: list[Lease]) -> list[Lease]:
    return sorted(leases, key=lambda lease: rank(lease.priority, lease.scheduled_at))
