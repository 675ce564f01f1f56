from datetime import timedelta

from conformance.scene import BOOM, Scene
from mainspring.domain.ids import make_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Retried


async def test_to_a_later_time(scene: Scene) -> None:
    task_id = await scene.submit()
    at = scene.clock.now() + timedelta(seconds=30)
    assert await scene.store.reschedule(task_id, at) is TaskStatus.PENDING
    task = await scene.get(task_id)
    assert (task.scheduled_at, task.ready) == (at, False)
    assert await scene.claim() == []
    scene.clock.advance(30)
    assert len(await scene.claim()) == 1


async def test_to_an_earlier_time_and_to_now(scene: Scene) -> None:
    task_id = await scene.submit(delay_seconds=3600.0)
    earlier = scene.clock.now() + timedelta(seconds=60)
    assert await scene.store.reschedule(task_id, earlier) is TaskStatus.PENDING
    assert (await scene.get(task_id)).scheduled_at == earlier
    assert await scene.store.reschedule(task_id, None) is TaskStatus.PENDING
    assert (await scene.get(task_id)).scheduled_at == scene.clock.now()
    assert len(await scene.claim()) == 1


async def test_a_past_time_means_now(scene: Scene) -> None:
    task_id = await scene.submit(delay_seconds=3600.0)
    await scene.store.reschedule(task_id, scene.clock.now() - timedelta(days=1))
    assert (await scene.get(task_id)).scheduled_at == scene.clock.now()


async def test_a_retrying_task_stays_retrying(scene: Scene) -> None:
    lease = await scene.running()
    await scene.settle(lease, Retried(BOOM, 100.0))
    assert await scene.store.reschedule(lease.id, None) is TaskStatus.RETRYING
    (again,) = await scene.claim()
    assert again.attempt == 2


async def test_a_task_that_does_not_wait_is_left_alone(scene: Scene) -> None:
    running = await scene.running()
    failed = await scene.fail()
    cancelled = await scene.submit()
    await scene.cancel(cancelled)
    at = scene.clock.now() + timedelta(seconds=30)
    for task_id, status in (
        (running.id, TaskStatus.RUNNING),
        (failed, TaskStatus.FAILED),
        (cancelled, TaskStatus.CANCELLED),
    ):
        before = await scene.get(task_id)
        assert await scene.store.reschedule(task_id, at) is status
        assert await scene.get(task_id) == before


async def test_an_unknown_task(scene: Scene) -> None:
    assert await scene.store.reschedule(make_id(1, 1), None) is None
