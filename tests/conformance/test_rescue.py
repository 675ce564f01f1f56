import asyncio

import pytest

from conformance.scene import LEASE_SECONDS, LostReplyError, Scene
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import FailureKind, Rescued
from mainspring.ports.hooks import HookPoint


async def test_a_lease_that_ended_is_taken_back(scene: Scene) -> None:
    lease = await scene.running()
    started_at = scene.clock.now()
    scene.clock.advance(LEASE_SECONDS + 1)
    assert await scene.store.rescue(10) == [Rescued(lease.id, TaskStatus.PENDING)]
    task = await scene.get(lease.id)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.PENDING, True, 1)
    assert task.fencing_token > lease.fencing_token
    assert task.scheduled_at == lease.scheduled_at
    assert (task.worker_id, task.lease_expires_at) == (None, None)
    (attempt,) = task.attempts
    assert (attempt.attempt, attempt.kind, attempt.worker_id) == (
        1,
        FailureKind.LEASE_EXPIRED,
        "w1",
    )
    assert (attempt.started_at, attempt.ended_at) == (started_at, scene.clock.now())
    assert task.last_error == attempt.error
    assert "w1" in attempt.error


async def test_a_lease_that_still_runs_is_left_alone(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS - 0.000001)
    assert await scene.store.rescue(10) == []
    assert await scene.held(lease)


async def test_the_attempt_is_charged_once(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    assert len(await scene.store.rescue(10)) == 1
    assert await scene.store.rescue(10) == []
    (again,) = await scene.claim()
    assert (again.id, again.attempt, again.crash_count) == (lease.id, 2, 0)


async def test_rescuers_at_once_take_each_task_back_once(scene: Scene) -> None:
    await scene.submit_many(40)
    leases = await scene.claim(40)
    scene.clock.advance(LEASE_SECONDS + 1)
    rounds = await asyncio.gather(*(scene.store.rescue(100) for _ in range(4)))
    rescued = [one.id for found in rounds for one in found]
    assert sorted(rescued) == sorted(lease.id for lease in leases)
    again = await scene.claim(40)
    assert {lease.attempt for lease in again} == {2}


async def test_rescue_takes_no_more_than_its_limit(scene: Scene) -> None:
    await scene.submit_many(5)
    await scene.claim(5)
    scene.clock.advance(LEASE_SECONDS + 1)
    assert [len(await scene.store.rescue(2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_task_that_kills_every_worker_ends_in_the_dead_letters(scene: Scene) -> None:
    task_id = await scene.submit(max_retries=3)
    rescued = None
    for attempt in range(1, 5):
        (lease,) = await scene.claim(worker_id=f"w{attempt}")
        # The first lost lease may be the fault of anything; from the second on it is the task's.
        assert (lease.attempt, lease.crash_count) == (attempt, max(0, attempt - 2))
        scene.clock.advance(LEASE_SECONDS + 1)
        (rescued,) = await scene.store.rescue(10)
    assert rescued == Rescued(task_id, TaskStatus.FAILED)
    assert await scene.claim() == []
    task = await scene.get(task_id)
    assert (task.status, task.attempt_count) == (TaskStatus.FAILED, 4)
    assert [attempt.worker_id for attempt in task.attempts] == ["w1", "w2", "w3", "w4"]
    assert task.completed_at == scene.clock.now()


async def test_waiting_and_finished_tasks_are_not_rescued(scene: Scene) -> None:
    await scene.complete(await scene.running())
    await scene.submit()
    scene.clock.advance(30 * 86400)
    assert await scene.store.rescue(10) == []


async def test_a_lost_reply_leaves_the_tasks_rescued(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    scene.trap.breaking = {HookPoint.RESCUE_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.store.rescue(10)
    scene.trap.breaking = set()
    assert await scene.store.rescue(10) == []
    assert (await scene.get(lease.id)).status is TaskStatus.PENDING
