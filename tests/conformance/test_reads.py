import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conformance.scene import BOOM, Scene
from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import make_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Retried
from mainspring.ports.store import DeadLetterFilter, TaskFilter


async def one_of_each(scene: Scene) -> dict[str, UUID]:
    """Put one task into every state, running ones last."""
    ids = {"failed": await scene.fail()}
    discarded = await scene.fail()
    await scene.store.discard(DeadLetterFilter(ids=(discarded,)), 1, "old")
    completed = await scene.running()
    await scene.complete(completed)
    cancelled = await scene.submit()
    await scene.cancel(cancelled)
    retrying = await scene.running()
    await scene.settle(retrying, Retried(BOOM, 1000.0))
    running = await scene.running()
    return ids | {
        "discarded": discarded,
        "completed": completed.id,
        "cancelled": cancelled,
        "retrying": retrying.id,
        "running": running.id,
        "pending": await scene.submit(),
    }


async def test_a_task_is_found_in_every_state(scene: Scene) -> None:
    for status, task_id in (await one_of_each(scene)).items():
        assert (await scene.get(task_id)).status == status
    assert await scene.store.get(make_id(1, 1)) is None


async def test_each_status_filters(scene: Scene) -> None:
    ids = await one_of_each(scene)
    for status in TaskStatus:
        assert await scene.ids_of(status=status) == {ids[status]}
    assert await scene.ids_of() == set(ids.values())


async def test_ready_is_derived_and_filters(scene: Scene) -> None:
    ids = await one_of_each(scene)
    assert await scene.ids_of(ready=True) == {ids["pending"]}
    assert await scene.ids_of(ready=False) == set(ids.values()) - {ids["pending"]}
    scene.clock.advance(1000)
    assert await scene.ids_of(ready=True) == {ids["pending"], ids["retrying"]}
    assert await scene.ids_of(ready=True, status=TaskStatus.RETRYING) == {ids["retrying"]}
    assert await scene.ids_of(ready=True, status=TaskStatus.COMPLETED) == set()


async def test_type_queue_and_time_filter_together(scene: Scene) -> None:
    old = await scene.submit(task_type="sms", queue="a")
    scene.clock.advance(60)
    middle = scene.clock.now()
    young = await scene.submit(task_type="sms", queue="b")
    mail = await scene.submit(queue="b")
    assert await scene.ids_of(task_type="sms") == {old, young}
    assert await scene.ids_of(queue="b") == {young, mail}
    assert await scene.ids_of(queue="b", task_type="sms") == {young}
    assert await scene.ids_of(since=middle) == {young, mail}
    assert await scene.ids_of(until=middle) == {old}
    assert await scene.ids_of(since=middle - timedelta(seconds=60), until=middle) == {old}
    assert await scene.ids_of(task_type="none") == set()


async def test_pages_run_from_the_newest_to_the_oldest(scene: Scene) -> None:
    ids = []
    for _ in range(25):
        ids.append(await scene.submit())
        scene.clock.advance(1)
    seen: list[UUID] = []
    sizes = []
    cursor = None
    while True:
        page = await scene.page(10, cursor)
        sizes.append(len(page.tasks))
        seen += [task.task_id for task in page.tasks]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=True)
    assert sizes == [10, 10, 5]


async def test_a_list_that_ends_with_a_full_page_has_no_next_one(scene: Scene) -> None:
    await scene.submit_many(10)
    assert (await scene.page(10)).cursor is None
    assert (await scene.page(5)).cursor is not None
    assert (await scene.page(5, (await scene.page(5)).cursor)).cursor is None


async def test_every_lasting_task_appears_once_while_others_come_and_change(scene: Scene) -> None:
    """Across the live table, the dead letters and the history."""
    await one_of_each(scene)
    scene.clock.advance(1)
    await scene.submit_many(20, queue="b")
    for lease in await scene.claim(7, queues=("b",)):
        await scene.complete(lease)
    lasting = await scene.ids_of()
    seen: list[UUID] = []
    cursor = None
    while True:
        page = await scene.page(4, cursor)
        seen += [task.task_id for task in page.tasks]
        await scene.submit()
        for lease in await scene.claim(1):
            await scene.complete(lease)
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(task_id for task_id in seen if task_id in lasting) == sorted(lasting)
    assert len(seen) == len(set(seen))


async def test_pages_of_a_filtered_list(scene: Scene) -> None:
    for n in range(30):
        await scene.submit(queue="ab"[n % 2])
        scene.clock.advance(0.001)
    first = await scene.page(10, queue="a")
    second = await scene.page(10, first.cursor, queue="a")
    assert (len(first.tasks), len(second.tasks), second.cursor) == (10, 5, None)
    assert {task.queue for task in (*first.tasks, *second.tasks)} == {"a"}


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "-1", "0", "'; DROP TABLE tasks; --", "\x00", "\ud800", "a" * 10_000, "٣" * 36,
     "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz"],
)  # fmt: skip
async def test_a_forged_cursor_is_refused_by_name(scene: Scene, cursor: str) -> None:
    await scene.submit()
    with pytest.raises(InvalidValue, match="cursor") as caught:
        await scene.page(10, cursor)
    assert caught.value.field == "cursor"


async def test_the_statuses_of_many(scene: Scene) -> None:
    ids = await one_of_each(scene)
    statuses = await scene.store.statuses([*ids.values(), make_id(1, 1)])
    assert statuses == {task_id: TaskStatus(status) for status, task_id in ids.items()}
    assert await scene.store.statuses([]) == {}


async def test_what_was_read_does_not_change_afterwards(scene: Scene) -> None:
    lease = await scene.running()
    before = await scene.get(lease.id)
    await scene.settle(lease, Retried(BOOM, 1.0))
    assert (before.status, before.attempts) == (TaskStatus.RUNNING, ())


async def test_reads_go_on_while_tasks_are_written(scene: Scene) -> None:
    await scene.submit_many(30)

    async def work() -> None:
        for lease in await scene.claim(5):
            await scene.complete(lease)

    async def look() -> None:
        page = await scene.store.page(TaskFilter(), 50)
        assert len(page.tasks) == len({task.task_id for task in page.tasks}) == 30

    jobs: list[Any] = [work() if n % 2 else look() for n in range(12)]
    await asyncio.gather(*jobs)
    assert len(await scene.ids_of(status=TaskStatus.COMPLETED)) == 30
