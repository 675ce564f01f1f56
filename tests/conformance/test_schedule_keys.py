"""The runs of schedules have groups, unique keys and webhooks as submitted tasks have."""

from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
import pytest

from conformance.scene import BOOM, Scene
from conformance.timetable import Timetable
from mainspring.core.planning import planned
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import key_tail, partition_of
from mainspring.domain.limits import Limit
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Failed
from mainspring.domain.webhooks import DELIVERY_TYPE, Event, Webhook
from mainspring.ports.schedules import Tick, TickKind, TickOutcome

MINUTE = timedelta(minutes=1)


def key_beside(name: str) -> str:
    """A key in the partition of a schedule, where its runs would be in any installation."""
    keys = (f"k{number}" for number in count())
    wanted = partition_of(UUID(int=key_tail(name)))
    return next(key for key in keys if partition_of(UUID(int=key_tail(key))) == wanted)


KEY = key_beside("report")


async def deliveries(scene: Scene) -> list[dict[str, Any]]:
    page = await scene.page(50, task_type=DELIVERY_TYPE)
    return [msgspec.json.decode(task.payload)["body"] for task in page.tasks]


def words(tick: Tick) -> tuple[TickOutcome, str | None, UUID | None]:
    return tick.outcome, tick.reason, tick.task_id


async def test_they_come_back_as_they_were_stored(scene: Scene) -> None:
    timetable = Timetable(scene)
    url = "https://example.com/a"
    hook = {"url": url, "events": ["failed"], "sign": "acme"}
    made = await timetable.make(group_key=KEY, unique_key="u", webhook=hook)
    template = made.template
    assert (template.group_key, template.unique_key) == (KEY, "u")
    assert template.webhook == Webhook(url=url, events=(Event.FAILED,), sign="acme")
    plain = msgspec.structs.replace(
        template, group_key=None, unique_key=None, webhook=None, priority=1
    )
    changed = msgspec.structs.replace(made, template=plain)
    assert await scene.store.replace_schedule(changed)
    assert (await timetable.read()).template == plain


async def test_runs_are_of_their_group_and_its_limit_holds(scene: Scene) -> None:
    timetable = Timetable(scene)
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    await timetable.make(group_key=KEY, overlap="allow")
    await scene.submit(group_key=KEY)
    await timetable.minute()
    await timetable.minute()
    assert (await timetable.read()).unfinished == 2
    first = await scene.claim(10)
    assert [lease.group_key for lease in first] == [KEY]
    assert await scene.claim(10) == []
    for _ in range(2):
        await scene.complete(first[0])
        first = await scene.claim(10)
        assert len(first) == 1
    assert first[0].tick is not None


async def test_a_live_task_takes_the_place_of_a_run_with_its_unique_key(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make(unique_key=KEY)
    live = await scene.submit(unique_key=KEY)
    (answer,) = await timetable.minute()
    assert (answer.is_stored, answer.started, answer.met) == (True, (), (start + MINUTE,))
    (tick,) = await timetable.history()
    assert words(tick) == (TickOutcome.SKIPPED, "unique", live)
    assert tick.task_status == "pending"
    stored = await timetable.read()
    assert (stored.counts, stored.unfinished) == ({"skipped:unique": 1}, 0)
    (lease,) = await scene.claim(10)
    await scene.complete(lease)
    (answer,) = await timetable.minute()
    assert answer.started == (start + 2 * MINUTE,)
    newest = (await timetable.history())[0]
    assert newest.task_id is not None
    assert (await scene.get(newest.task_id)).unique_key == KEY
    assert (await scene.store.ended_runs(10)).ended == []


async def test_a_submission_is_answered_with_the_run(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(unique_key=KEY)
    await timetable.minute()
    task_id = (await timetable.history())[0].task_id
    (answer,) = await scene.store.submit([scene.task(unique_key=KEY)])
    assert (answer.id, answer.is_new) == (task_id, False)


async def test_a_unique_key_is_one_of_its_group(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(unique_key="u", group_key=KEY)
    await scene.submit(unique_key="u", group_key=f"{KEY}x")
    (answer,) = await timetable.minute()
    assert len(answer.started) == 1


async def test_an_earlier_run_is_told_from_another_task(scene: Scene) -> None:
    """The overlap policy looks at the runs of the schedule, the unique key at all live tasks."""
    timetable = Timetable(scene)
    await timetable.make(unique_key=KEY, overlap="skip")
    await timetable.minute()
    await timetable.minute()
    newest, first = await timetable.history()
    assert words(first)[:2] == (TickOutcome.TASK, None)
    assert words(newest) == (TickOutcome.SKIPPED, "overlap", None)


async def test_of_runs_that_overlap_one_is_made(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make(unique_key=KEY, overlap="allow", misfire="run_all")
    (answer,) = await timetable.minute(3)
    assert answer.started == (start + MINUTE,)
    assert answer.met == (start + 2 * MINUTE, start + 3 * MINUTE)
    ticks = await timetable.history()
    assert {tick.task_id for tick in ticks} == {ticks[-1].task_id}
    assert len(await scene.claim(10)) == 1


async def test_a_time_that_waited_meets_a_live_task(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(overlap="buffer_one")
    await timetable.minute()
    await timetable.minute()
    stored = await timetable.read()
    template = msgspec.structs.replace(stored.template, unique_key=KEY)
    assert await scene.store.replace_schedule(msgspec.structs.replace(stored, template=template))
    (lease,) = await scene.claim(10)
    live = await scene.submit(unique_key=KEY)
    await scene.complete(lease)
    (answer,) = await timetable.plan()
    assert len(answer.met) == 1
    assert words((await timetable.history())[0]) == (TickOutcome.SKIPPED, "unique", live)


async def test_what_has_a_tick_meets_nobody(scene: Scene) -> None:
    """A plan that comes a second time changes nothing, whatever is live by now."""
    timetable = Timetable(scene)
    await timetable.make(unique_key=KEY)
    scene.clock.advance(60.0)
    due = await scene.store.due_schedules(10)
    first, again = (planned(due.schedules[0], due.now, timetable.ids) for _ in range(2))
    assert len((await scene.store.commit_plans([first]))[0].started) == 1
    revision = (await timetable.read()).revision
    schedule = msgspec.structs.replace(again.schedule, revision=revision)
    mistaken = msgspec.structs.replace(again, schedule=schedule)
    (answer,) = await scene.store.commit_plans([mistaken])
    assert (answer.is_stored, answer.started, answer.met) == (True, (), ())
    assert len(await timetable.history()) == 1


async def test_by_hand_the_live_task_is_the_answer(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(unique_key=KEY, overlap="allow")
    schedules = Schedules(scene.store, scene.clock, timetable.ids)
    made = await schedules.trigger("report")
    assert (made.outcome, made.kind) == (TickOutcome.TASK, TickKind.MANUAL)
    met = await schedules.trigger("report")
    assert words(met) == (TickOutcome.SKIPPED, "unique", made.task_id)
    with pytest.raises(InvalidValue, match="buffer_one") as refused:
        await schedules.trigger("report", "cancel_previous")
    assert refused.value.field == "overlap"


async def test_a_backfill_runs_one_after_the_other(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make(unique_key=KEY, misfire="skip", misfire_tolerance=1)
    scene.clock.advance(210.0)
    await timetable.plan()
    schedules = Schedules(scene.store, scene.clock, timetable.ids)
    span = (start + MINUTE, start + 4 * MINUTE)
    for number in (1, 2, 3):
        result = await schedules.backfill("report", *span)
        assert result.started == (start + number * MINUTE,)
        (lease,) = await scene.claim(10)
        await scene.complete(lease)
    assert {words(tick)[0] for tick in await timetable.history()} == {TickOutcome.TASK}


async def test_a_run_that_is_to_be_replaced_has_no_unique_key(scene: Scene) -> None:
    timetable = Timetable(scene)
    schedules = Schedules(scene.store, scene.clock, timetable.ids)
    options = {"cron": "* * * * *", "unique_key": KEY, "overlap": "cancel_previous"}
    with pytest.raises(InvalidValue, match="leave unique_key out"):
        await schedules.create("report", Change(task_type="mail", options=options))
    await timetable.make(overlap="cancel_previous")
    with pytest.raises(InvalidValue, match="leave unique_key out"):
        await schedules.update("report", Change(options={"unique_key": KEY}))


async def test_the_webhook_is_told_of_each_end_of_a_run(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(webhook="https://example.com/hook", overlap="allow")
    await timetable.minute(1)
    await timetable.minute(1)
    done, failed = await scene.claim(2)
    await scene.complete(done)
    await scene.settle(failed, Failed(BOOM))
    told = await deliveries(scene)
    assert {(one["task_id"], one["event"]) for one in told} == {
        (str(done.id), "completed"),
        (str(failed.id), "failed"),
    }


async def test_the_webhook_is_told_of_a_run_that_another_one_replaces(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(webhook="https://example.com/hook", overlap="cancel_previous")
    await timetable.minute()
    first = (await timetable.history())[0].task_id
    await timetable.minute()
    (told,) = await deliveries(scene)
    assert (told["task_id"], told["event"]) == (str(first), "cancelled")
    assert "a later run" in told["reason"]


async def test_the_webhook_is_told_of_a_run_that_did_not_start_in_time(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(webhook="https://example.com/hook", start_deadline=10, group_key=KEY)
    await timetable.minute()
    task_id = (await timetable.history())[0].task_id
    scene.clock.advance(11.0)
    assert len(await scene.store.expire_starts(10)) == 1
    (told,) = await deliveries(scene)
    assert (told["task_id"], told["event"]) == (str(task_id), "cancelled")
    assert task_id is not None
    assert (await scene.get(task_id)).status is TaskStatus.CANCELLED
