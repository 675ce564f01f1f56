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
