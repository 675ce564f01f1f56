import msgspec

from conformance.scene import Scene
from mainspring.domain.priority import Level
from mainspring.ports.workers import WorkerState

WORKER = WorkerState(
    worker_id="host-1-a",
    hostname="host",
    pid=1,
    task_types=("mail", "resize"),
    queues=("a", "b"),
    lanes=(Level.CRITICAL, Level.HIGH),
    slots=16,
)


async def test_a_worker_is_shown_as_it_describes_itself(scene: Scene) -> None:
    await scene.store.beat(WORKER)
    started_at = scene.clock.now()
    scene.clock.advance(20)
    busy = msgspec.structs.replace(WORKER, busy=7, draining=True)
    await scene.store.beat(busy)
    assert await scene.store.workers() == [
        msgspec.structs.replace(busy, started_at=started_at, seen_at=scene.clock.now())
    ]


async def test_no_filter_means_everything(scene: Scene) -> None:
    await scene.store.beat(msgspec.structs.replace(WORKER, queues=None, lanes=None))
    (worker,) = await scene.store.workers()
    assert worker.queues is worker.lanes is None


async def test_a_worker_that_leaves_is_gone(scene: Scene) -> None:
    await scene.store.beat(WORKER)
    await scene.store.beat(msgspec.structs.replace(WORKER, worker_id="host-2-b"))
    await scene.store.leave("host-1-a")
    await scene.store.leave("host-1-a")
    assert [worker.worker_id for worker in await scene.store.workers()] == ["host-2-b"]


async def test_silent_workers_are_forgotten(scene: Scene) -> None:
    await scene.store.beat(WORKER)
    scene.clock.advance(50)
    await scene.store.beat(msgspec.structs.replace(WORKER, worker_id="host-2-b"))
    assert await scene.store.forget_workers(60.0) == 0
    scene.clock.advance(20)
    assert await scene.store.forget_workers(60.0) == 1
    assert [worker.worker_id for worker in await scene.store.workers()] == ["host-2-b"]


async def test_a_forgotten_worker_keeps_its_leases_and_comes_back_with_its_next_beat(
    scene: Scene,
) -> None:
    await scene.store.beat(WORKER)
    lease = await scene.running()
    scene.clock.advance(50)
    await scene.store.forget_workers(10.0)
    assert await scene.held(lease)
    await scene.store.beat(WORKER)
    assert len(await scene.store.workers()) == 1


async def test_types_that_nobody_serves_are_found_once_they_have_waited(scene: Scene) -> None:
    await scene.submit(task_type="mail")
    await scene.submit(task_type="nobody")
    await scene.submit(task_type="later", delay_seconds=3600.0)
    await scene.store.beat(WORKER)
    assert await scene.store.unserved(10.0) == ()
    scene.clock.advance(10)
    assert await scene.store.unserved(10.0) == ("nobody",)
    await scene.store.leave(WORKER.worker_id)
    assert await scene.store.unserved(10.0) == ("mail", "nobody")
