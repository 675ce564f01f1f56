"""The duties of a scheduler on the store in memory, with a clock that moves by hand."""

import asyncio
import random
from datetime import UTC, datetime

import pytest

from conformance.scene import BOOM, LEASE_SECONDS, Scene, Trap
from mainspring.adapters.memory.store import MemoryStore
from mainspring.core.service import Service
from mainspring.domain.errors import InvalidValue, StoreUnavailable
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Retried
from mainspring.ports.hooks import HookPoint
from mainspring.ports.workers import WorkerState
from mainspring.scheduler.janitor import Janitor, Keep
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.placement import PlacementWatch
from mainspring.scheduler.rescuer import Rescuer
from mainspring.scheduler.service import SchedulerService
from manual_clock import ManualClock

DAY = 86400.0


@pytest.fixture
def scene() -> Scene:
    clock, trap = ManualClock(), Trap()
    return Scene(MemoryStore(clock, hooks=trap), clock, trap)


@pytest.fixture
def loop(scene: Scene) -> Loop:
    return Loop(scene.clock, random.Random(1))


async def test_the_rescuer_takes_back_what_expired_and_nothing_else(
    scene: Scene, loop: Loop
) -> None:
    rescuer = Rescuer(scene.store, loop)
    await scene.submit_many(3)
    await scene.claim(2)
    scene.clock.advance(LEASE_SECONDS / 2)
    await scene.claim(1)
    assert await rescuer.run_once() == 0
    scene.clock.advance(LEASE_SECONDS / 2)
    assert await rescuer.run_once() == 2
    assert await rescuer.run_once() == 0
    scene.clock.advance(LEASE_SECONDS / 2)
    assert await rescuer.run_once() == 1


async def test_the_rescuer_goes_on_until_nothing_is_left(scene: Scene, loop: Loop) -> None:
    await scene.submit_many(1203)
    await scene.claim(1203)
    scene.clock.advance(LEASE_SECONDS + 1)
    assert await Rescuer(scene.store, loop).run_once() == 1203
    assert len(await scene.claim(2000)) == 1203


async def test_the_rescuer_says_what_it_did(
    scene: Scene, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    poison = await scene.submit(max_retries=0)
    good = await scene.submit(max_retries=1)
    await scene.claim(2)
    scene.clock.advance(LEASE_SECONDS + 1)
    await Rescuer(scene.store, loop).run_once()
    said = {record.getMessage(): record.levelname for record in caplog.records}
    assert said == {
        f"the lease of task {poison} expired; it is failed now": "ERROR",
        f"the lease of task {good} expired; it is pending now": "WARNING",
    }


async def test_a_dead_worker_is_noticed_by_the_running_service(scene: Scene, loop: Loop) -> None:
    """Between the end of the lease and one interval, with its jitter, later."""
    lease = await scene.running()
    running = asyncio.create_task(Rescuer(scene.store, loop, seconds=5.0).run())
    started_at = scene.clock.monotonic()
    while await scene.held(lease):
        await scene.clock.sleeping()
        scene.clock.advance(0.5)
        await scene.clock.sleeping()
    noticed = scene.clock.monotonic() - started_at
    assert LEASE_SECONDS <= noticed <= LEASE_SECONDS + 5.5 + 0.5
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_rescue_whose_reply_is_lost_is_not_charged_twice(scene: Scene, loop: Loop) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    scene.trap.breaking = {HookPoint.RESCUE_AFTER_COMMIT}
    scene.trap.error = StoreUnavailable("gone")
    running = asyncio.create_task(Rescuer(scene.store, loop).run())
    await scene.clock.sleeping()
    scene.trap.breaking = set()
    scene.clock.advance(1)
    await scene.clock.sleeping()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await scene.get(lease.id)).attempt_count == 1
    assert len((await scene.get(lease.id)).attempts) == 1


def janitor(scene: Scene, loop: Loop, **keep: float) -> Janitor:
    return Janitor(scene.store, loop, Keep(months_ahead=2, **keep))


async def test_the_janitor_makes_months_ahead_as_time_goes_by(scene: Scene, loop: Loop) -> None:
    duty = janitor(scene, loop)
    await duty.run_once()
    assert await duty.run_once() == 0
    scene.clock.set(datetime(2026, 5, 31, 23, 59, 59, tzinfo=UTC))
    assert await duty.run_once() == 0
    scene.clock.advance(1)
    assert await duty.run_once() == 1


async def test_the_janitor_drops_old_history_and_keeps_the_young(scene: Scene, loop: Loop) -> None:
    duty = janitor(scene, loop, history_days=5.0)
    await duty.run_once()
    await scene.complete(await scene.running())
    scene.clock.advance(25 * DAY)
    young = await scene.running()
    await scene.complete(young)
    failed = await scene.running(max_retries=0)
    await scene.settle(failed, Retried(BOOM, 0.0))
    for _ in range(3):
        scene.clock.advance(DAY)
        await duty.run_once()
    assert await scene.ids_of(status=TaskStatus.COMPLETED) == {young.id}
    scene.clock.advance(60 * DAY)
    await duty.run_once()
    assert await scene.ids_of() == {failed.id}


async def test_the_janitor_forgets_keys_and_silent_workers(scene: Scene, loop: Loop) -> None:
    duty = janitor(scene, loop, key_days=7.0, silent_seconds=180.0)
    await scene.complete(await scene.running(key="k"))
    await scene.store.beat(
        WorkerState(worker_id="w1", hostname="h", pid=1, queues=None, lanes=None, slots=4)
    )
    await duty.run_once()
    scene.clock.advance(181)
    assert await duty.run_once() == 1
    assert await scene.store.workers() == []
    scene.clock.advance(7 * DAY)
    assert await duty.run_once() == 1
    (answer,) = await scene.store.submit([scene.task(key="k")])
    assert answer.is_new


async def test_two_schedulers_at_once_do_everything_once(scene: Scene, loop: Loop) -> None:
    lease = await scene.running()
    scene.clock.advance(LEASE_SECONDS + 1)
    schedulers = [
        SchedulerService([Rescuer(scene.store, loop), janitor(scene, loop)]) for _ in range(2)
    ]
    counts = await asyncio.gather(*(scheduler.run_once() for scheduler in schedulers))
    assert sorted(counts) == [0, 1 + 3]
    assert (await scene.get(lease.id)).attempt_count == 1


async def test_the_scheduler_runs_all_its_duties_until_it_is_cancelled(
    scene: Scene, loop: Loop
) -> None:
    scheduler = SchedulerService([Rescuer(scene.store, loop), janitor(scene, loop)])
    running = asyncio.create_task(scheduler.run())
    await scene.clock.sleeping(2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_duty_that_breaks_ends_the_scheduler(scene: Scene, loop: Loop) -> None:
    class Broken:
        name = "broken"

        async def run(self) -> None:
            raise InvalidValue("a fault")

        async def run_once(self) -> int:
            return 0

    duties: list[Service] = [Rescuer(scene.store, loop), Broken()]
    with pytest.raises(ExceptionGroup) as caught:
        await SchedulerService(duties).run()
    assert [str(error) for error in caught.value.exceptions] == ["a fault"]


async def test_a_branch_that_nobody_can_take_is_told_of_once_and_when_it_goes_on(
    scene: Scene, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    watch = PlacementWatch(scene.store, loop)
    await scene.submit(queue="reports@gpu,region=eu")
    await scene.submit(queue="reports")
    assert [await watch.run_once(), await watch.run_once()] == [1, 1]
    able = WorkerState(
        worker_id="w1",
        hostname="h",
        pid=1,
        task_types=("mail",),
        queues=None,
        lanes=None,
        labels=("gpu", "region=eu"),
        slots=4,
    )
    await scene.store.beat(able)
    assert [await watch.run_once(), await watch.run_once()] == [0, 0]
    warning, info = caplog.records
    assert (warning.levelname, info.levelname) == ("WARNING", "INFO")
    assert warning.getMessage().startswith("1 due tasks of queue reports need gpu, region=eu")
    assert warning.getMessage().endswith("start one with --labels gpu,region=eu")
    assert "queue reports" in info.getMessage()
