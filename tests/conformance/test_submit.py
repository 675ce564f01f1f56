import asyncio
from datetime import timedelta

import msgspec
import pytest

from conformance.scene import LostReplyError, Scene
from mainspring.domain.priority import Level
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Submission
from mainspring.ports.hooks import HookPoint


async def test_a_task_is_stored_as_it_was_given(scene: Scene) -> None:
    task_id = await scene.submit(
        payload='{"user_id": 123, "name": "Zoë"}',
        queue="letters",
        priority=2,
        timeout_seconds=7.5,
        max_retries=9,
        backoff=Backoff(BackoffKind.LINEAR),
    )
    task = await scene.get(task_id)
    assert msgspec.json.decode(task.payload) == {"user_id": 123, "name": "Zoë"}
    assert (task.task_type, task.queue, task.priority) == ("mail", "letters", 2)
    assert (task.timeout, task.max_retries, task.retry_backoff) == (7.5, 9, "linear")
    assert (task.status, task.ready, task.level) == (TaskStatus.PENDING, True, Level.HIGH)
    assert (task.schedule_type, task.attempt_count) == ("one_time", 0)
    assert task.created_at == task.scheduled_at == scene.clock.now()
    assert (task.started_at, task.completed_at, task.lease_expires_at) == (None, None, None)
    assert (task.worker_id, task.last_error, task.reason, task.key) == (None, None, None, None)
    assert (task.result, task.progress) == (None, None)
    assert not task.cancel_requested
    assert task.attempts == ()


async def test_the_backoff_reaches_the_worker_unchanged(scene: Scene) -> None:
    backoff = Backoff(BackoffKind.FIXED, 1.25, 3.5, 77.0)
    assert (await scene.running(backoff=backoff)).backoff == backoff


async def test_every_task_of_a_batch_is_answered_in_order(scene: Scene) -> None:
    tasks = [scene.task(priority=n % 11) for n in range(500)]
    assert await scene.store.submit(tasks) == [Submission(task.id) for task in tasks]
    assert await scene.ids_of() == {task.id for task in tasks}


async def test_an_empty_batch_is_no_error(scene: Scene) -> None:
    assert await scene.store.submit([]) == []


async def test_a_delay_counts_from_the_clock_of_the_store(scene: Scene) -> None:
    task_id = await scene.submit(delay_seconds=90.0)
    task = await scene.get(task_id)
    assert task.scheduled_at == scene.clock.now() + timedelta(seconds=90)
    assert not task.ready


async def test_a_future_time_is_kept_to_the_microsecond(scene: Scene) -> None:
    at = scene.clock.now() + timedelta(days=400, microseconds=123457)
    task_id = await scene.submit(scheduled_at=at)
    assert (await scene.get(task_id)).scheduled_at == at


async def test_a_past_time_means_now(scene: Scene) -> None:
    task_id = await scene.submit(scheduled_at=scene.clock.now() - timedelta(days=3))
    assert (await scene.get(task_id)).scheduled_at == scene.clock.now()


async def test_a_task_is_never_claimed_before_its_time(scene: Scene) -> None:
    await scene.submit(delay_seconds=10.0)
    scene.clock.advance(9.999999)
    assert await scene.claim() == []
    scene.clock.advance(0.000001)
    assert len(await scene.claim()) == 1


async def test_a_lost_reply_leaves_the_tasks_stored(scene: Scene) -> None:
    tasks = [scene.task() for _ in range(3)]
    scene.trap.breaking = {HookPoint.SUBMIT_AFTER_COMMIT}
    with pytest.raises(LostReplyError):
        await scene.store.submit(tasks)
    assert await scene.ids_of() == {task.id for task in tasks}


async def test_the_largest_values_are_kept(scene: Scene) -> None:
    payload = msgspec.json.encode({"text": "x" * 250_000}).decode()
    lease = await scene.running(
        payload=payload, queue="q" * 200, timeout_seconds=30 * 86400.0, max_retries=1000
    )
    assert msgspec.json.decode(lease.payload) == msgspec.json.decode(payload)
    assert (lease.queue, lease.timeout_seconds, lease.max_retries) == ("q" * 200, 2592000.0, 1000)


async def test_numbers_come_back_as_they_were(scene: Scene) -> None:
    payload = '{"a": 1e5, "b": 1.10, "c": 12345678901234567890123, "d": -0.0, "e": [[], {}]}'
    lease = await scene.running(payload=payload)
    assert lease.payload == payload
    assert bytes((await scene.get(lease.id)).payload).decode() == payload


async def test_batches_submitted_at_once_all_arrive(scene: Scene) -> None:
    batches = [[scene.task() for _ in range(20)] for _ in range(8)]
    await asyncio.gather(*(scene.store.submit(batch) for batch in batches))
    assert len(await scene.ids_of()) == 160


async def test_a_submission_repeated_under_its_own_id_makes_no_second_task(scene: Scene) -> None:
    tasks = [scene.task() for _ in range(3)]
    await scene.store.submit(tasks)
    (lease,) = await scene.claim()
    await scene.complete(lease)
    fourth = scene.task()
    answers = await scene.store.submit([*tasks, fourth])
    assert [answer.id for answer in answers] == [task.id for task in (*tasks, fourth)]
    assert [answer.is_new for answer in answers] == [False, False, False, True]
    assert await scene.ids_of() == {answer.id for answer in answers}
    assert (await scene.get(lease.id)).status is TaskStatus.COMPLETED


async def test_a_first_submission_is_stored_as_it_was_given(scene: Scene) -> None:
    at = scene.clock.now() + timedelta(days=400, microseconds=123457)
    fixed = Backoff(BackoffKind.FIXED, 1.25, 3.5, 77.0)
    special = {
        "payload": '{"a": 1e5}',
        "queue": "letters",
        "priority": 2,
        "scheduled_at": at,
        "timeout_seconds": 7.5,
        "max_retries": 9,
        "backoff": fixed,
    }
    alone, plain = scene.task(**special), scene.task()
    crowd = [scene.task(**special), scene.task(delay_seconds=90.0), scene.task(queue="parcels")]
    for batch in ([alone], [plain], crowd):
        assert await scene.store.submit(batch, first=True) == [Submission(one.id) for one in batch]
    for task_id in (alone.id, crowd[0].id):
        task = await scene.get(task_id)
        assert (task.queue, task.priority, task.scheduled_at) == ("letters", 2, at)
        assert (task.timeout, task.max_retries, task.retry_backoff) == (7.5, 9, "fixed")
        assert bytes(task.payload).decode() == '{"a": 1e5}'
    task = await scene.get(plain.id)
    assert (task.queue, task.priority, task.timeout, task.max_retries) == ("default", 5, 300.0, 3)
    assert task.created_at == task.scheduled_at == scene.clock.now()
    assert (await scene.get(crowd[1].id)).scheduled_at == scene.clock.now() + timedelta(seconds=90)
    leases = await scene.claim(limit=9)
    assert {lease.id for lease in leases} == {plain.id, crowd[2].id}
    scene.clock.advance(500 * 86400.0)
    assert {lease.backoff for lease in await scene.claim(limit=9) if lease.queue == "letters"} == {
        fixed
    }


async def test_a_first_submission_may_be_the_first_of_its_queue(scene: Scene) -> None:
    for count in (1, 2, 3):
        tasks = [scene.task(queue=f"new-{count}"), *(scene.task() for _ in range(count - 1))]
        answers = await scene.store.submit(tasks, first=True)
        assert answers == [Submission(task.id) for task in tasks]
    assert {"new-1", "new-2", "new-3"} <= {*await scene.store.queue_names()}
    assert len(await scene.claim(limit=9)) == 6


async def test_a_past_time_of_a_first_submission_means_now(scene: Scene) -> None:
    past = scene.clock.now() - timedelta(days=3)
    for count in (1, 2):
        batch = [scene.task(scheduled_at=past) for _ in range(count)]
        await scene.store.submit(batch, first=True)
        assert (await scene.get(batch[0].id)).scheduled_at == scene.clock.now()


async def test_a_first_submission_whose_reply_was_lost_may_be_repeated(scene: Scene) -> None:
    await scene.submit()
    for count in (1, 3):
        await scene.claim(limit=9)
        tasks = [scene.task() for _ in range(count)]
        scene.trap.breaking = {HookPoint.SUBMIT_AFTER_COMMIT}
        with pytest.raises(LostReplyError):
            await scene.store.submit(tasks, first=True)
        scene.trap.breaking = set()
        again = await scene.store.submit(tasks)
        assert again == [Submission(task.id, is_new=False) for task in tasks]
        leases = await scene.claim(limit=9)
        assert {lease.id for lease in leases} == {task.id for task in tasks}
        await scene.complete(leases[0])
        again = await scene.store.submit(tasks)
        assert again == [Submission(task.id, is_new=False) for task in tasks]
        assert await scene.claim(limit=9) == []


async def test_a_broken_promise_makes_no_second_task_while_the_first_lives(scene: Scene) -> None:
    await scene.submit()
    tasks = [scene.task() for _ in range(2)]
    assert await scene.store.submit(tasks[:1], first=True) == [Submission(tasks[0].id)]
    for batch in (tasks[:1], tasks):
        answers = await scene.store.submit(batch, first=True)
        assert answers[0] == Submission(tasks[0].id, is_new=False)
    assert len(await scene.claim(limit=9)) == 3
