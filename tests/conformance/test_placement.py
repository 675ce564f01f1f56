"""Tasks that need labels, and the workers that get them."""

from typing import Any
from uuid import UUID

import pytest

from conformance.scene import BOOM, Scene
from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import (
    BRANCHES_MAX,
    NO_WORKER,
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    branch_of,
)
from mainspring.domain.task import CancelState, Lease, Retried
from mainspring.ports.branches import BranchState, Unplaceable
from mainspring.ports.store import DeadLetterFilter
from mainspring.ports.workers import WorkerState

GPU = branch_of("default", ("gpu",))
GPU_EU = branch_of("default", ("gpu", "region=eu"))


def worker(name: str, *labels: str, **fields: Any) -> WorkerState:
    given = {"slots": 10, "queues": None, "task_types": ("mail",), **fields}
    return WorkerState(worker_id=name, hostname="h", pid=1, lanes=None, labels=labels, **given)


async def register(scene: Scene, *workers: WorkerState) -> None:
    for one in workers:
        await scene.store.beat(one)


async def claimed(scene: Scene, name: str, *labels: str, **fields: Any) -> list[UUID]:
    return [lease.id for lease in await take(scene, name, *labels, **fields)]


async def take(
    scene: Scene, name: str, *labels: str, limit: int = 10, **fields: Any
) -> list[Lease]:
    return await scene.claim(limit, worker_id=name, labels=labels, **fields)


async def test_a_worker_takes_what_needs_no_more_than_it_offers(scene: Scene) -> None:
    plain = await scene.submit()
    gpu = await scene.submit(queue=GPU)
    gpu_eu = await scene.submit(queue=GPU_EU)
    assert await claimed(scene, "none") == [plain]
    assert await claimed(scene, "eu", "region=eu") == []
    assert await claimed(scene, "us", "gpu", "region=us") == [gpu]
    (lease,) = await take(scene, "all", "gpu", "large", "region=eu")
    assert (lease.id, lease.queue) == (gpu_eu, "default")


async def test_a_worker_takes_labelled_tasks_of_its_queues_only(scene: Scene) -> None:
    await scene.submit(queue=GPU)
    reports = await scene.submit(queue=branch_of("reports", ("gpu",)))
    assert await claimed(scene, "w", "gpu", queues=("reports",)) == [reports]


@pytest.mark.one_store
async def test_the_least_loaded_worker_gets_the_task_and_the_others_wait_for_it(
    scene: Scene,
) -> None:
    await register(scene, worker("busy", "gpu"), worker("idle", "gpu", "fast"))
    await scene.submit_many(3)
    assert len(await claimed(scene, "busy", "gpu")) == 3
    task = await scene.submit(queue=GPU)
    asked = await scene.ask(10, worker_id="busy", labels=("gpu",))
    assert asked.leases == []
    assert asked.next_due_seconds == pytest.approx(PATIENCE_SECONDS)
    assert await claimed(scene, "idle", "gpu", "fast") == [task]


@pytest.mark.one_store
async def test_load_is_relative_to_slots(scene: Scene) -> None:
    await register(scene, worker("large", "gpu", slots=100), worker("small", "gpu", slots=2))
    await scene.submit_many(4)
    assert len(await claimed(scene, "large", limit=3)) == 3
    assert len(await claimed(scene, "small", limit=1)) == 1
    task = await scene.submit(queue=GPU)
    assert await claimed(scene, "small", "gpu") == []
    assert await claimed(scene, "large", "gpu") == [task]


@pytest.mark.one_store
async def test_a_burst_is_shared_by_load(scene: Scene) -> None:
    await register(scene, worker("a", "gpu"), worker("b", "gpu"), worker("other", "arm"))
    await scene.submit_many(2)
    assert len(await claimed(scene, "a")) == 2
    burst = await scene.submit_many(8, queue=GPU)
    first = await claimed(scene, "a", "gpu")
    second = await claimed(scene, "b", "gpu")
    assert (len(first), len(second)) == (3, 5)
    assert sorted(first + second) == sorted(burst)


async def test_nobody_is_waited_for_longer_than_the_patience(scene: Scene) -> None:
    await register(scene, worker("busy", "gpu"), worker("idle", "gpu"))
    await scene.submit()
    await claimed(scene, "busy")
    task = await scene.submit(queue=GPU)
    assert await claimed(scene, "busy", "gpu") == []
    scene.clock.advance(PATIENCE_SECONDS)
    assert await claimed(scene, "busy", "gpu") == [task]


@pytest.mark.parametrize(
    "gone",
    [
        {"draining": True},
        {"task_types": ("other",)},
        {"queues": ("other",)},
        {"slots": 0},
    ],
)
async def test_a_worker_that_cannot_take_it_is_not_waited_for(
    scene: Scene, gone: dict[str, Any]
) -> None:
    await register(scene, worker("busy", "gpu"), worker("idle", "gpu", **gone))
    await scene.submit()
    await claimed(scene, "busy")
    task = await scene.submit(queue=GPU)
    assert await claimed(scene, "busy", "gpu") == [task]


async def test_others_take_over_when_the_least_loaded_worker_leaves_or_is_silent(
    scene: Scene,
) -> None:
    await register(scene, worker("busy", "gpu"), worker("idle", "gpu"), worker("mute", "gpu"))
    await scene.submit()
    await claimed(scene, "busy")
    scene.clock.advance(SILENT_SECONDS)
    await register(scene, worker("busy", "gpu"), worker("idle", "gpu"))
    task = await scene.submit(queue=GPU)
    assert await claimed(scene, "busy", "gpu") == []
    await scene.store.leave("idle")
    assert await claimed(scene, "busy", "gpu") == [task]


async def test_a_due_task_that_no_live_worker_can_take_is_shown(scene: Scene) -> None:
    await register(scene, worker("plain"), worker("typeless", "gpu", task_types=("other",)))
    task = await scene.submit(queue=GPU)
    later = await scene.submit(queue=GPU, delay_seconds=60.0)
    plain = await scene.submit()
    scene.clock.advance(2)
    shown = {task.task_id: task.placement for task in (await scene.page()).tasks}
    assert shown == {task: NO_WORKER, later: None, plain: None}
    stuck = Unplaceable(queue="default", labels=("gpu",), count=1, oldest_seconds=2.0)
    assert await scene.store.unplaceable() == [stuck]
    await register(scene, worker("able", "gpu"))
    assert (await scene.get(task)).placement is None
    assert await scene.store.unplaceable() == []
    scene.clock.advance(SILENT_SECONDS)
    assert (await scene.get(task)).placement == NO_WORKER


async def test_a_queue_shows_its_branches_and_counts_them(scene: Scene) -> None:
    await register(scene, worker("able", "gpu"))
    await scene.submit_many(2, queue=GPU)
    await scene.submit(queue=GPU_EU)
    await scene.submit(queue=GPU_EU, delay_seconds=60.0)
    await scene.submit()
    assert len(await claimed(scene, "able", "gpu", limit=1, queues=())) == 0
    scene.clock.advance(3)
    (state,) = await scene.store.queues()
    assert (state.queue, state.ready, state.scheduled) == ("default", 4, 1)
    assert state.branches == (
        BranchState(
            labels=("gpu",),
            ready=2,
            scheduled=0,
            running=0,
            oldest_ready_seconds=3.0,
            workers=1,
            unplaceable=0,
        ),
        BranchState(
            labels=("gpu", "region=eu"),
            ready=1,
            scheduled=1,
            running=0,
            oldest_ready_seconds=3.0,
            workers=0,
            unplaceable=1,
        ),
    )
    assert await scene.store.queue_names() == ["default"]
    assert [(one.queue, one.ready) for one in await scene.store.backlogs(100)] == [("default", 4)]


async def test_pausing_a_queue_pauses_its_branches_also_those_to_come(scene: Scene) -> None:
    await scene.submit(queue=GPU)
    await scene.store.pause("default")
    await scene.submit(queue=GPU_EU)
    assert await claimed(scene, "w", "gpu", "region=eu") == []
    (state,) = await scene.store.queues()
    assert (state.paused, state.ready) == (True, 2)
    await scene.store.resume("default")
    assert len(await claimed(scene, "w", "gpu", "region=eu")) == 2


async def test_a_task_keeps_its_labels_on_all_its_ways(scene: Scene) -> None:
    cancelled = await scene.submit(queue=GPU)
    assert await scene.cancel(cancelled) is CancelState.CANCELLED
    failed = await scene.submit(queue=GPU, max_retries=0)
    (lease,) = await take(scene, "w", "gpu")
    assert await scene.settle(lease, Retried(BOOM, 0.0))
    for task_id in (cancelled, failed):
        task = await scene.get(task_id)
        assert (task.queue, task.labels, task.placement) == ("default", ("gpu",), None)
    which = DeadLetterFilter(queues=("default",))
    assert await scene.store.replay(which, 10) == [failed]
    assert (await scene.get(failed)).labels == ("gpu",)
    assert await claimed(scene, "plain") == []
    assert await claimed(scene, "w", "gpu") == [failed]


async def test_a_queue_is_filtered_by_with_its_branches(scene: Scene) -> None:
    gpu = await scene.submit(queue=GPU)
    plain = await scene.submit()
    await scene.submit(queue="other")
    assert await scene.ids_of(queue="default") == {gpu, plain}
    assert await scene.ids_of(queues=("default",)) == {gpu, plain}
    assert (await scene.store.places([gpu]))[gpu].queue == "default"


@pytest.mark.one_store
async def test_branches_are_bounded(scene: Scene) -> None:
    few = [scene.task(queue=branch_of("q", (f"k={n}",))) for n in range(BRANCHES_MAX)]
    await scene.store.submit(few)
    with pytest.raises(InvalidValue, match="labels make another branch of the queue q") as refused:
        await scene.submit(queue=branch_of("q", ("other",)))
    assert refused.value.field == "labels"
    await scene.submit(queue=branch_of("q", ("k=0",)))
    await scene.submit(queue=branch_of("tenant~q", ("other",)))
