from conformance.scene import BOOM, Scene
from mainspring.domain.task import Retried
from mainspring.ports.store import QueueState


async def test_a_queue_exists_once_a_task_was_submitted_to_it(scene: Scene) -> None:
    assert await scene.store.queues() == []
    lease = await scene.running(queue="b")
    await scene.submit(queue="a", delay_seconds=5.0)
    await scene.complete(lease)
    assert [state.queue for state in await scene.store.queues()] == ["a", "b"]


async def test_counts_of_a_queue(scene: Scene) -> None:
    await scene.submit_many(3)
    await scene.claim(1)
    scene.clock.advance(4)
    await scene.submit_many(2)
    await scene.submit_many(4, delay_seconds=10.0)
    scene.clock.advance(3)
    assert await scene.store.queues() == [
        QueueState(
            queue="default",
            paused=False,
            ready=4,
            scheduled=4,
            running=1,
            oldest_ready_seconds=7.0,
        )
    ]


async def test_retries_count_as_scheduled_until_they_are_due(scene: Scene) -> None:
    lease = await scene.running()
    await scene.settle(lease, Retried(BOOM, 10.0))
    (state,) = await scene.store.queues()
    assert (state.ready, state.scheduled, state.oldest_ready_seconds) == (0, 1, None)
    scene.clock.advance(12)
    (state,) = await scene.store.queues()
    assert (state.ready, state.scheduled, state.oldest_ready_seconds) == (1, 0, 2.0)


async def test_pausing_is_shown(scene: Scene) -> None:
    await scene.submit(queue="a")
    await scene.submit(queue="b")
    await scene.store.pause("a")
    assert [state.paused for state in await scene.store.queues()] == [True, False]
    await scene.store.resume("a")
    await scene.store.resume("a")
    assert [state.paused for state in await scene.store.queues()] == [False, False]


async def test_tasks_may_be_submitted_to_a_paused_queue(scene: Scene) -> None:
    await scene.submit(queue="a")
    await scene.store.pause("a")
    await scene.submit(queue="a")
    assert await scene.claim(5) == []
    (state,) = await scene.store.queues()
    assert (state.paused, state.ready) == (True, 2)
