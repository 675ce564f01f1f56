from datetime import timedelta

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, LostReplyError, Scene
from mainspring.domain.ids import make_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    ATTEMPTS_KEPT,
    Cancelled,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    Released,
    Retried,
    Settlement,
)
from mainspring.ports.hooks import HookPoint

ENDINGS: list[Ending] = [
    Completed("1"),
    Retried(BOOM, 0.0),
    Failed(BOOM),
    Cancelled("late"),
    Released(),
    Released(5.0),
]


async def test_completed(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(2)
    assert await scene.settle(lease, Completed('{"sent": true, "n": 1.50}'))
    task = await scene.get(lease.id)
    assert (task.status, task.attempt_count, task.attempts) == (TaskStatus.COMPLETED, 1, ())
    assert task.result is not None
    assert bytes(task.result) == b'{"sent": true, "n": 1.50}'
    assert task.completed_at == scene.clock.now()
    assert task.started_at == lease.started_at
    assert task.lease_expires_at is None
    assert not task.ready


async def test_completed_without_a_result(scene: Scene) -> None:
    lease = await scene.running()
    assert await scene.settle(lease, Completed())
    assert (await scene.get(lease.id)).result is None


async def test_retried(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(1.5)
    assert await scene.settle(lease, Retried(BOOM, 2.25))
    task = await scene.get(lease.id)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.RETRYING, False, 1)
    assert task.scheduled_at == scene.clock.now() + timedelta(seconds=2.25)
    assert task.last_error == "ValueError: no"
    assert (task.worker_id, task.lease_expires_at, task.completed_at) == (None, None, None)
    (attempt,) = task.attempts
    assert (attempt.attempt, attempt.kind, attempt.error, attempt.traceback) == (
        1,
        FailureKind.ERROR,
        "ValueError: no",
        "Traceback: no",
    )
    assert (attempt.worker_id, attempt.started_at, attempt.ended_at) == (
        "w1",
        lease.started_at,
        scene.clock.now(),
    )
    scene.clock.advance(2.249999)
    assert await scene.claim() == []
    scene.clock.advance(0.000001)
    (again,) = await scene.claim()
    assert (again.id, again.attempt, again.crash_count) == (lease.id, 2, 0)


async def test_a_retry_without_an_attempt_left_goes_to_the_dead_letters(scene: Scene) -> None:
    task_id = await scene.submit(max_retries=2)
    for attempt in range(1, 4):
        (lease,) = await scene.claim()
        assert lease.attempt == attempt
        assert await scene.settle(lease, Retried(BOOM, 0.0))
    task = await scene.get(task_id)
    assert (task.status, task.attempt_count) == (TaskStatus.FAILED, 3)
    assert [attempt.attempt for attempt in task.attempts] == [1, 2, 3]
    assert task.completed_at == scene.clock.now()
    assert await scene.claim() == []
    assert await scene.store.dead_letter_count() == 1


async def test_without_retries_the_first_failure_is_the_last(scene: Scene) -> None:
    task_id = await scene.fail(max_retries=0)
    assert (await scene.get(task_id)).status is TaskStatus.FAILED


async def test_failed_for_good_whatever_is_left(scene: Scene) -> None:
    lease = await scene.running(max_retries=10)
    failure = Failure(kind=FailureKind.FINAL, message="Fail: no such user")
    assert await scene.settle(lease, Failed(failure))
    task = await scene.get(lease.id)
    assert (task.status, task.last_error) == (TaskStatus.FAILED, "Fail: no such user")
    assert [attempt.kind for attempt in task.attempts] == [FailureKind.FINAL]
    assert await scene.ids_of(status=TaskStatus.FAILED) == {lease.id}


async def test_cancelled_by_its_handler(scene: Scene) -> None:
    lease = await scene.running()
    assert await scene.settle(lease, Cancelled("user has left"))
    task = await scene.get(lease.id)
    assert (task.status, task.reason) == (TaskStatus.CANCELLED, "user has left")
    assert task.completed_at == scene.clock.now()
    assert task.attempts == ()


async def test_released_at_once_costs_neither_attempt_nor_age(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(10)
    assert await scene.settle(lease, Released())
    task = await scene.get(lease.id)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.PENDING, True, 0)
    assert task.scheduled_at == lease.scheduled_at
    (again,) = await scene.claim()
    assert again.attempt == 1
    assert again.fencing_token > lease.fencing_token


async def test_snoozed_waits_and_is_not_charged(scene: Scene) -> None:
    lease = await scene.running()
    scene.clock.advance(10)
    assert await scene.settle(lease, Released(7.5))
    task = await scene.get(lease.id)
    assert (task.status, task.ready, task.attempt_count) == (TaskStatus.PENDING, False, 0)
    assert task.scheduled_at == scene.clock.now() + timedelta(seconds=7.5)
    assert task.attempts == ()


async def test_snoozing_for_ever_never_uses_the_attempts_up(scene: Scene) -> None:
    await scene.submit(max_retries=0)
    for _ in range(5):
        (lease,) = await scene.claim()
        assert lease.attempt == 1
        assert await scene.settle(lease, Released(1.0))
        scene.clock.advance(1)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("repeat", ENDINGS)
async def test_a_second_ending_is_refused_and_changes_nothing(
    scene: Scene, ending: Ending, repeat: Ending
) -> None:
    lease = await scene.running()
    assert await scene.settle(lease, ending)
    before = await scene.get(lease.id)
    assert not await scene.settle(lease, repeat)
    assert await scene.get(lease.id) == before


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_ending_under_an_old_token_is_refused(scene: Scene, ending: Ending) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    await scene.store.rescue(10)
    waiting = await scene.get(lease.id)
    assert not await scene.settle(lease, ending)
    assert await scene.get(lease.id) == waiting
    (owner,) = await scene.claim(worker_id="w2")
    running = await scene.get(lease.id)
    assert not await scene.settle(lease, ending)
    assert await scene.get(lease.id) == running
    assert await scene.complete(owner)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_ending_is_accepted_late_while_nobody_took_the_task_back(
    scene: Scene, ending: Ending
) -> None:
    lease = await scene.running()
    scene.clock.advance(10 * LEASE_SECONDS)
    assert await scene.settle(lease, ending)


async def test_a_batch_is_answered_one_by_one_in_order(scene: Scene) -> None:
    await scene.submit_many(6)
    leases = await scene.claim(6)
    await scene.complete(leases[2])
    settlements = [
        Settlement(lease.id, lease.fencing_token, ending)
        for lease, ending in zip(leases, ENDINGS, strict=True)
    ]
    settlements.insert(3, Settlement(make_id(1, 1), 1, Completed()))
    settlements.append(Settlement(leases[0].id, leases[0].fencing_token - 1, Completed()))
    answers = await scene.store.settle(settlements)
    assert answers == [True, True, False, False, True, True, True, False]
    assert await scene.store.settle(settlements) == [False] * 8
    statuses = await scene.store.statuses([lease.id for lease in leases])
    assert [statuses[lease.id] for lease in leases] == [
        TaskStatus.COMPLETED,
        TaskStatus.RETRYING,
        TaskStatus.COMPLETED,
        TaskStatus.CANCELLED,
        TaskStatus.PENDING,
        TaskStatus.PENDING,
    ]


async def test_nothing_to_settle(scene: Scene) -> None:
    assert await scene.store.settle([]) == []


async def test_a_reply_lost_after_the_commit(scene: Scene) -> None:
    lease = await scene.running()
    scene.trap.breaking = {HookPoint.SETTLE_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.complete(lease)
    scene.trap.breaking = set()
    assert not await scene.complete(lease)
    assert (await scene.get(lease.id)).status is TaskStatus.COMPLETED


async def test_a_connection_lost_before_the_commit(scene: Scene) -> None:
    lease = await scene.running()
    before = await scene.get(lease.id)
    scene.trap.breaking = {HookPoint.SETTLE_BEFORE_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.complete(lease)
    scene.trap.breaking = set()
    assert await scene.get(lease.id) == before
    assert await scene.complete(lease)


async def test_attempts_that_died_with_their_process_are_counted(scene: Scene) -> None:
    lease = await scene.running()
    died = Failure(kind=FailureKind.CRASHED, message="died")
    assert await scene.settle(lease, Retried(died, 0.0))
    (again,) = await scene.claim()
    assert (again.attempt, again.crash_count) == (2, 1)


async def test_of_many_attempts_the_first_and_the_last_are_kept(scene: Scene) -> None:
    task_id = await scene.submit(max_retries=100)
    for n in range(1, ATTEMPTS_KEPT + 6):
        (lease,) = await scene.claim()
        failure = Failure(kind=FailureKind.ERROR, message=f"error {n}")
        assert await scene.settle(lease, Retried(failure, 0.0))
    attempts = (await scene.get(task_id)).attempts
    kept = [1, *range(7, ATTEMPTS_KEPT + 6)]
    assert [attempt.attempt for attempt in attempts] == kept
    assert [attempt.error for attempt in attempts] == [f"error {n}" for n in kept]
    assert (await scene.get(task_id)).last_error == "error 25"


async def test_awkward_text_is_kept(scene: Scene) -> None:
    lease = await scene.running()
    text = "Fehler: \N{SNOWMAN} \U0001f600 'quoted' \"double\" \\back {brace,} \t tab"
    failure = Failure(kind=FailureKind.ERROR, message=text, traceback=text + "\n" + text)
    assert await scene.settle(lease, Failed(failure))
    task = await scene.get(lease.id)
    assert (task.last_error, task.attempts[0].error) == (text, text)
    assert task.attempts[0].traceback == text + "\n" + text
