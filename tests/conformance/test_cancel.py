import asyncio

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, LostReplyError, Scene
from mainspring.domain.ids import make_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Cancelled, CancelState, Ending, Failed, Released, Retried
from mainspring.ports.hooks import HookPoint


async def test_a_waiting_task_never_starts(scene: Scene) -> None:
    for fields in ({}, {"delay_seconds": 60.0}):
        task_id = await scene.submit(**fields)
        assert await scene.cancel(task_id, "not needed") is CancelState.CANCELLED
        scene.clock.advance(120)
        assert await scene.claim() == []
        task = await scene.get(task_id)
        assert (task.status, task.reason) == (TaskStatus.CANCELLED, "not needed")
        assert (task.attempt_count, task.ready) == (0, False)


async def test_a_retrying_task_never_starts_again(scene: Scene) -> None:
    lease = await scene.running()
    await scene.settle(lease, Retried(BOOM, 5.0))
    assert await scene.cancel(lease.id) is CancelState.CANCELLED
    task = await scene.get(lease.id)
    assert (task.status, task.attempt_count, len(task.attempts)) == (TaskStatus.CANCELLED, 1, 1)
    assert task.completed_at == scene.clock.now()


async def test_a_running_task_is_asked_and_ends_when_its_handler_says_so(scene: Scene) -> None:
    lease = await scene.running()
    assert await scene.cancel(lease.id, "changed my mind") is CancelState.CANCELLING
    assert await scene.cancel(lease.id) is CancelState.CANCELLING
    task = await scene.get(lease.id)
    assert (task.status, task.cancel_requested) == (TaskStatus.RUNNING, True)
    assert await scene.settle(lease, Cancelled())
    task = await scene.get(lease.id)
    assert (task.status, task.reason) == (TaskStatus.CANCELLED, "changed my mind")


async def test_a_running_task_that_completes_first_is_completed(scene: Scene) -> None:
    lease = await scene.running()
    await scene.cancel(lease.id)
    assert await scene.complete(lease)
    assert (await scene.get(lease.id)).status is TaskStatus.COMPLETED


@pytest.mark.parametrize("ending", [Retried(BOOM, 1.0), Released(), Released(1.0)])
@pytest.mark.parametrize("max_retries", [0, 3])
async def test_a_task_to_be_cancelled_does_not_wait_again(
    scene: Scene, ending: Ending, max_retries: int
) -> None:
    lease = await scene.running(max_retries=max_retries)
    await scene.cancel(lease.id, "stop")
    assert await scene.settle(lease, ending)
    task = await scene.get(lease.id)
    assert (task.status, task.reason) == (TaskStatus.CANCELLED, "stop")
    scene.clock.advance(10)
    assert await scene.claim() == []


async def test_a_task_to_be_cancelled_that_failed_for_good_is_a_dead_letter(scene: Scene) -> None:
    lease = await scene.running()
    await scene.cancel(lease.id)
    assert await scene.settle(lease, Failed(BOOM))
    assert (await scene.get(lease.id)).status is TaskStatus.FAILED


async def test_finished_tasks_stay_what_they_are(scene: Scene) -> None:
    completed = await scene.running()
    await scene.complete(completed)
    cancelled = await scene.submit()
    await scene.cancel(cancelled, "first")
    failed = await scene.fail()
    ids = [completed.id, cancelled, failed]
    before = [await scene.get(task_id) for task_id in ids]
    assert await scene.store.cancel(ids, "second") == [CancelState.FINISHED] * 3
    assert [await scene.get(task_id) for task_id in ids] == before


async def test_many_are_answered_in_order(scene: Scene) -> None:
    running = await scene.running()
    waiting = await scene.submit()
    failed_id = running.id
    unknown = make_id(1, 1)
    assert await scene.store.cancel([unknown, running.id, waiting]) == [
        CancelState.NOT_FOUND,
        CancelState.CANCELLING,
        CancelState.CANCELLED,
    ]
    assert await scene.store.cancel([waiting, failed_id]) == [
        CancelState.FINISHED,
        CancelState.CANCELLING,
    ]
    assert await scene.store.cancel([]) == []


async def test_a_cancellation_survives_the_death_of_the_worker(scene: Scene) -> None:
    lease = await scene.running()
    await scene.cancel(lease.id, "stop")
    scene.clock.advance(LEASE_SECONDS + 1)
    (rescued,) = await scene.store.rescue(10)
    assert rescued.status is TaskStatus.CANCELLED
    task = await scene.get(lease.id)
    assert (task.status, task.reason) == (TaskStatus.CANCELLED, "stop")
    assert await scene.claim() == []


async def test_a_lost_reply_can_be_repeated(scene: Scene) -> None:
    task_id = await scene.submit()
    scene.trap.breaking = {HookPoint.CANCEL_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.cancel(task_id)
    scene.trap.breaking = set()
    assert await scene.cancel(task_id) is CancelState.FINISHED
    assert (await scene.get(task_id)).status is TaskStatus.CANCELLED


async def test_cancelling_and_claiming_at_once_has_one_winner(scene: Scene) -> None:
    ids = await scene.submit_many(60)
    states, claims = await asyncio.gather(
        scene.store.cancel(ids),
        asyncio.gather(*(scene.claim(15, worker_id=f"w{n}") for n in range(4))),
    )
    started = {lease.id for leases in claims for lease in leases}
    for task_id, state in zip(ids, states, strict=True):
        wanted = CancelState.CANCELLING if task_id in started else CancelState.CANCELLED
        assert state is wanted


async def test_cancelling_and_completing_at_once_agree_with_the_answers(scene: Scene) -> None:
    await scene.submit_many(40)
    leases = await scene.claim(40)
    ids = [lease.id for lease in leases]
    states, answers = await asyncio.gather(
        scene.store.cancel(ids), asyncio.gather(*(scene.complete(lease) for lease in leases))
    )
    assert answers == [True] * 40
    assert set(states) <= {CancelState.CANCELLING, CancelState.FINISHED}
    statuses = await scene.store.statuses(ids)
    assert set(statuses.values()) == {TaskStatus.COMPLETED}
