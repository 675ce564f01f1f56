import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, LostReplyError, Scene
from mainspring.domain.priority import LANES, Level, lane_entries
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Ending, Released, Retried
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import Claim


async def test_a_claimed_task_is_running_charged_and_leased(scene: Scene) -> None:
    task_id = await scene.submit(payload='{"n": 1}', priority=4, queue="letters")
    created_at = scene.clock.now()
    scene.clock.advance(3)
    (lease,) = await scene.claim(worker_id="host-1-abc")
    assert (lease.id, lease.task_type, lease.payload) == (task_id, "mail", '{"n": 1}')
    assert (lease.queue, lease.priority, lease.lane) == ("letters", 4, Level.NORMAL)
    assert (lease.attempt, lease.crash_count) == (1, 0)
    assert lease.fencing_token > 0
    assert lease.scheduled_at == lease.created_at == created_at
    assert lease.started_at == scene.clock.now()
    task = await scene.get(task_id)
    assert (task.status, task.ready) == (TaskStatus.RUNNING, False)
    assert (task.attempt_count, task.fencing_token) == (1, lease.fencing_token)
    assert (task.worker_id, task.started_at) == ("host-1-abc", scene.clock.now())
    assert task.lease_expires_at == scene.clock.now() + timedelta(seconds=LEASE_SECONDS)


async def test_nothing_is_claimed_twice(scene: Scene) -> None:
    await scene.submit_many(3)
    assert len(await scene.claim(2)) == 2
    assert len(await scene.claim(2)) == 1
    assert await scene.claim(2) == []


async def test_concurrent_claims_never_share_a_task(scene: Scene) -> None:
    ids = {task_id for n in range(4) for task_id in await scene.submit_many(20, priority=3 * n)}
    claims = await asyncio.gather(*(scene.claim(15, worker_id=f"w{n}") for n in range(8)))
    claimed = [lease.id for leases in claims for lease in leases]
    assert len(claimed) == len(set(claimed))
    rest = await scene.claim(80)
    assert ids == {*claimed, *(lease.id for lease in rest)}


async def test_only_task_types_with_a_handler_are_taken(scene: Scene) -> None:
    unknown = await scene.submit(task_type="unknown", priority=0)
    known = await scene.submit(task_type="sms", priority=9)
    leases = await scene.claim(10, task_types=("mail", "sms"))
    assert [lease.id for lease in leases] == [known]
    task = await scene.get(unknown)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.PENDING, True, 0)


async def test_many_unknown_tasks_do_not_hide_a_known_one(scene: Scene) -> None:
    await scene.submit_many(300, task_type="unknown")
    scene.clock.advance(1)
    known = await scene.submit()
    assert [lease.id for lease in await scene.claim(5)] == [known]


async def test_a_claimer_without_handlers_takes_nothing(scene: Scene) -> None:
    await scene.submit()
    assert await scene.claim(5, task_types=()) == []


async def test_only_the_queues_asked_for_are_taken(scene: Scene) -> None:
    await scene.submit(queue="a")
    wanted = [await scene.submit(queue=queue) for queue in ("b", "c")]
    leases = await scene.claim(10, queues=("b", "c", "never-used"))
    assert sorted(lease.id for lease in leases) == sorted(wanted)


async def test_only_the_lanes_asked_for_are_taken(scene: Scene) -> None:
    for priority in (0, 2, 5, 8, 10):
        await scene.submit(priority=priority)
    leases = await scene.claim(10, lanes=(Level.HIGH, Level.LOW))
    assert sorted(lease.priority for lease in leases) == [2, 8, 10]


async def test_a_claim_for_one_lane_finds_what_has_aged_into_it(scene: Scene) -> None:
    await scene.submit(priority=5)
    scene.clock.advance(lane_entries(5)[Level.HIGH])
    assert await scene.claim(lanes=(Level.NORMAL,)) == []
    assert len(await scene.claim(lanes=(Level.HIGH,))) == 1


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(scene: Scene) -> None:
    running = await scene.running(queue="a")
    await scene.submit(queue="a")
    await scene.store.pause("a")
    await scene.store.pause("a")
    assert await scene.claim(5) == []
    assert await scene.claim(5, queues=("a",)) == []
    assert await scene.complete(running)
    await scene.store.resume("a")
    assert len(await scene.claim(5)) == 1


async def test_the_next_due_time_is_told_when_the_claim_comes_back_short(scene: Scene) -> None:
    assert await scene.ask(2) == Claim([], None)
    await scene.submit(delay_seconds=30.0)
    await scene.submit(delay_seconds=12.5, priority=9)
    await scene.submit(delay_seconds=3.0, task_type="unknown")
    await scene.submit(delay_seconds=4.0, queue="paused")
    await scene.store.pause("paused")
    scene.clock.advance(2.5)
    assert await scene.ask(2) == Claim([], 10.0)


async def test_the_next_due_time_is_that_of_a_task_the_worker_could_take(scene: Scene) -> None:
    await scene.submit(delay_seconds=5.0, queue="a")
    await scene.submit(delay_seconds=9.0, queue="b", priority=0)
    assert (await scene.ask(1, queues=("b",))).next_due_seconds == 9.0
    assert (await scene.ask(1, lanes=(Level.CRITICAL,), queues=("b",))).next_due_seconds == 9.0


async def test_a_full_claim_takes_no_more_than_its_limit(scene: Scene) -> None:
    for priority in range(11):
        await scene.submit_many(3, priority=priority)
    for limit in (1, 2, 7, 23):
        assert len(await scene.claim(limit)) == limit


async def test_every_claim_raises_the_token(scene: Scene) -> None:
    lease = await scene.running()
    tokens = [lease.fencing_token]
    endings: list[Ending] = [Released(), Retried(BOOM, 0.0), Released(1.0)]
    for ending in endings:
        assert await scene.settle(lease, ending)
        scene.clock.advance(5)
        (lease,) = await scene.claim()
        tokens.append(lease.fencing_token)
    assert tokens == sorted(set(tokens))
    assert lease.attempt == 2


async def test_a_claim_whose_reply_is_lost_is_taken_back_by_rescue(scene: Scene) -> None:
    task_id = await scene.submit()
    scene.trap.breaking = {HookPoint.CLAIM_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.claim()
    scene.trap.breaking = set()
    assert await scene.claim() == []
    scene.clock.advance(LEASE_SECONDS + 1)
    assert [rescued.id for rescued in await scene.store.rescue(10)] == [task_id]
    (lease,) = await scene.claim()
    assert lease.attempt == 2


@pytest.mark.parametrize("priority", range(11))
async def test_a_task_moves_to_a_better_lane_at_the_exact_moment(
    scene: Scene, priority: int
) -> None:
    entries = lane_entries(priority)
    task_id = await scene.submit(priority=priority)
    created_at = scene.clock.now()
    lanes = [lane for lane in reversed(LANES) if lane in entries]
    for earlier, lane in pairwise(lanes):
        moment = created_at + timedelta(seconds=entries[lane])
        scene.clock.set(moment - timedelta(microseconds=1))
        assert await lane_at(scene, task_id) is earlier
        scene.clock.set(moment)
        assert await lane_at(scene, task_id) is lane


async def lane_at(scene: Scene, task_id: object) -> Level:
    """Claim the task to see its lane, and hand it back at the age it had."""
    (lease,) = await scene.claim()
    assert lease.id == task_id
    assert await scene.settle(lease, Released())
    return lease.lane
