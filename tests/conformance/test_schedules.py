"""What a store of schedules has to keep, whatever planners and people do."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from conformance.scene import BOOM, LostReplyError, Scene
from conformance.timetable import Timetable
from mainspring.core.planning import planned, state_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Cancelled, CancelState, Failed, Retried, TickRef
from mainspring.ports.hooks import HookPoint
from mainspring.ports.schedules import (
    Committed,
    EndedRun,
    NewTick,
    SchedulePlan,
    TickKind,
    TickOutcome,
)
from mainspring.ports.store import DeadLetterFilter, Hint, TaskFilter

MINUTE = timedelta(minutes=1)


async def test_a_schedule_comes_back_as_it_was_stored(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    made = await timetable.make(timezone="Europe/Berlin", overlap="buffer_all", overlap_limit=3)
    assert state_of(made).spec.timezone == "Europe/Berlin"
    assert (made.next_nominal, made.plan_at) == (start + MINUTE, start + MINUTE)
    assert (made.revision, made.created_at, made.updated_at) == (1, start, start)
    assert await timetable.store.list_schedules(10) == [made]
    assert await timetable.store.load_schedules([made.id]) == [
        msgspec.structs.replace(made, counts={})
    ]


async def test_a_name_is_taken_once_and_free_after_deletion(scene: Scene) -> None:
    timetable = Timetable(scene)
    made = await timetable.make()
    other = msgspec.structs.replace(made, id=timetable.ids.task_id())
    assert not await timetable.store.create_schedule(other)
    assert await timetable.store.delete_schedule("report")
    assert not await timetable.store.delete_schedule("report")
    assert await timetable.store.get_schedule("report") is None
    assert await timetable.store.list_schedules(10) == []
    assert await timetable.store.create_schedule(other)
    assert (await timetable.read()).id == other.id


async def test_it_was_made_when_its_times_began_however_long_it_took_to_store(
    scene: Scene,
) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    blank = msgspec.structs.replace(await timetable.make(), name="b", created_at=start)
    scene.clock.advance(5.0)
    other = msgspec.structs.replace(blank, id=timetable.ids.task_id("b"))
    assert await timetable.store.create_schedule(other)
    made = await timetable.read("b")
    assert (made.created_at, made.updated_at) == (start, scene.clock.now())


async def test_lists_go_on_after_a_name(scene: Scene) -> None:
    timetable = Timetable(scene)
    for name in ("b", "c", "a"):
        await timetable.make(name)
    first = await timetable.store.list_schedules(2)
    rest = await timetable.store.list_schedules(2, first[-1].name)
    assert [one.name for one in [*first, *rest]] == ["a", "b", "c"]


async def test_nothing_is_due_before_its_time(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    scene.clock.advance(20.0)
    due = await timetable.store.due_schedules(10)
    assert (due.schedules, due.next_seconds) == ([], 40.0)


async def test_a_due_time_becomes_a_task_that_knows_it(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make()
    (answer,) = await timetable.minute()
    assert answer == Committed(is_stored=True, started=(start + MINUTE,))
    (lease,) = await scene.claim()
    assert lease.tick == TickRef("report", start + MINUTE, start)
    await scene.complete(lease)
    task = await scene.get(lease.id)
    assert (task.schedule, task.schedule_type) == ("report", "recurring")
    assert (task.nominal_at, task.previous_nominal_at) == (start + MINUTE, start)
    (tick,) = await timetable.history()
    assert (tick.nominal_at, tick.outcome, tick.task_id) == (
        start + MINUTE,
        TickOutcome.TASK,
        lease.id,
    )
    assert tick.task_status == "completed"


async def test_the_tick_is_kept_through_every_table(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(max_retries=0, overlap="allow")
    for end in ("dead", "rescued", "cancelled", "failed"):
        await timetable.minute()
        (lease,) = await scene.claim(task_types=("mail",))
        if end == "dead":
            await scene.settle(lease, Retried(BOOM, 0.0))
        elif end == "failed":
            await scene.settle(lease, Failed(BOOM))
        elif end == "rescued":
            scene.clock.advance(1000.0)
            await scene.store.rescue(10)
        else:
            await scene.settle(lease, Cancelled())
        assert (await scene.get(lease.id)).schedule == "report"
        await scene.store.cancel([lease.id])


async def test_the_tasks_of_a_schedule_can_be_listed(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(overlap="allow")
    await scene.submit()
    for _ in range(3):
        await timetable.minute()
    waiting, done, dead = await scene.claim(3)
    await scene.complete(done)
    await scene.settle(dead, Failed(BOOM))
    made = {lease.id for lease in (waiting, done, dead) if lease.tick is not None}
    page = await scene.store.page(TaskFilter(schedule="report"), 10)
    assert {task.task_id for task in page.tasks} >= made
    assert {task.schedule for task in page.tasks} == {"report"}
    assert len(page.tasks) == 3
    assert (await scene.store.page(TaskFilter(schedule="other"), 10)).tasks == []


async def test_a_replayed_dead_letter_keeps_its_tick(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    await timetable.minute()
    (lease,) = await scene.claim()
    await scene.settle(lease, Failed(BOOM))
    await scene.store.replay(DeadLetterFilter(), 10)
    (again,) = await scene.claim()
    assert again.tick == lease.tick


async def test_a_plan_of_an_old_revision_changes_nothing(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    scene.clock.advance(60.0)
    due = await timetable.store.due_schedules(10)
    plans = [planned(due.schedules[0], due.now, timetable.ids) for _ in range(2)]
    answers = [(await timetable.store.commit_plans([plan]))[0] for plan in plans]
    assert [answer.is_stored for answer in answers] == [True, False]
    assert len(await timetable.history()) == 1
    assert len(await scene.claim(10)) == 1


async def test_two_planners_at_once_make_each_tick_once(scene: Scene) -> None:
    timetable = Timetable(scene)
    for number in range(20):
        await timetable.make(f"s{number}")
    scene.clock.advance(60.0)
    due = await timetable.store.due_schedules(100)
    plans = [[planned(one, due.now, timetable.ids) for one in due.schedules] for _ in range(2)]
    first, second = await asyncio.gather(*(timetable.store.commit_plans(one) for one in plans))
    assert [a.is_stored + b.is_stored for a, b in zip(first, second, strict=True)] == [1] * 20
    assert len(await scene.claim(100)) == 20


async def test_a_nominal_time_has_one_tick_whatever_the_revision(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make()
    await timetable.minute()
    again = msgspec.structs.replace(
        await timetable.read(), next_nominal=start + MINUTE, last_nominal=start, unfinished=0
    )
    plan = planned(again, scene.clock.now(), timetable.ids)
    (answer,) = await timetable.store.commit_plans([plan])
    assert answer == Committed(is_stored=True)
    assert len(await scene.claim(10)) == 1


async def test_an_edit_between_reading_and_storing_wins(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    scene.clock.advance(60.0)
    due = await timetable.store.due_schedules(10)
    edited = msgspec.structs.replace(await timetable.read(), note="edited")
    assert await timetable.store.replace_schedule(edited)
    assert not await timetable.store.replace_schedule(edited)
    plan = planned(due.schedules[0], due.now, timetable.ids)
    assert await timetable.store.commit_plans([plan]) == [Committed(is_stored=False)]
    assert await timetable.history() == []
    assert (await timetable.plan())[0].is_stored


async def test_a_deleted_schedule_makes_no_tick(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    scene.clock.advance(60.0)
    due = await timetable.store.due_schedules(10)
    await timetable.store.delete_schedule("report")
    plan = planned(due.schedules[0], due.now, timetable.ids)
    assert await timetable.store.commit_plans([plan]) == [Committed(is_stored=False)]
    assert await scene.claim(10) == []
    assert (await timetable.store.due_schedules(10)).schedules == []


async def test_overlap_counts_runs_that_are_live(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    await timetable.minute()
    (lease,) = await scene.claim()
    await timetable.minute()
    assert [tick.outcome for tick in await timetable.history()] == [
        TickOutcome.SKIPPED,
        TickOutcome.TASK,
    ]
    stored = await timetable.read()
    assert (stored.unfinished, stored.counts) == (1, {"skipped:overlap": 1})
    await scene.complete(lease)
    await timetable.minute()
    assert (await timetable.history())[0].outcome is TickOutcome.TASK


async def test_a_buffered_time_runs_when_the_run_before_has_ended(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make(overlap="buffer_one")
    await timetable.minute()
    (lease,) = await scene.claim()
    await timetable.minute()
    assert (await timetable.history())[0].outcome is TickOutcome.BUFFERED
    assert (await timetable.store.due_schedules(10)).schedules == []
    await scene.complete(lease)
    assert (await timetable.plan())[0].started == (start + 2 * MINUTE,)
    (second,) = await scene.claim()
    assert second.tick is not None
    assert second.tick.nominal_at == start + 2 * MINUTE
    assert [tick.outcome for tick in await timetable.history()] == [TickOutcome.TASK] * 2


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_new_run_cancels_the_one_before(scene: Scene, is_running: bool) -> None:
    timetable = Timetable(scene)
    await timetable.make(overlap="cancel_previous")
    await timetable.minute()
    first = (await timetable.history())[0].task_id
    assert first is not None
    if is_running:
        await scene.claim()
    await timetable.minute()
    task = await scene.get(first)
    assert task.reason == "a later run of its schedule took its place"
    if is_running:
        assert (task.status, task.cancel_requested) == (TaskStatus.RUNNING, True)
    else:
        assert task.status is TaskStatus.CANCELLED
    assert len([one for one in await timetable.history() if one.task_id is not None]) == 2


async def test_skipped_times_are_recorded_with_their_number(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make()
    await timetable.minute(60)
    newest, skipped = await timetable.history()
    assert (newest.outcome, newest.nominal_at) == (TickOutcome.TASK, start + 60 * MINUTE)
    assert (skipped.reason, skipped.count, skipped.is_exact) == ("coalesced", 59, True)
    assert (skipped.nominal_at, skipped.until_at) == (start + MINUTE, start + 59 * MINUTE)
    assert (await timetable.read()).counts == {"skipped:coalesced": 59}


async def test_a_run_that_has_not_started_by_its_deadline_never_does(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make(start_deadline=20, overlap="allow")
    await timetable.minute()
    assert await timetable.store.expire_starts(10) == []
    scene.clock.advance(21.0)
    (expired,) = await timetable.store.expire_starts(10)
    assert (expired.schedule, expired.nominal_at) == ("report", start + MINUTE)
    assert await scene.claim(10) == []
    (tick,) = await timetable.history()
    assert (tick.outcome, tick.reason) == (TickOutcome.SKIPPED, "start_deadline")
    assert (await timetable.read()).counts == {"skipped:start_deadline": 1}


async def test_a_run_that_started_in_time_goes_on(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(start_deadline=20)
    await timetable.minute()
    (lease,) = await scene.claim()
    scene.clock.advance(21.0)
    assert await timetable.store.expire_starts(10) == []
    assert await scene.complete(lease)


async def test_ends_of_runs_are_found_in_parts(scene: Scene) -> None:
    timetable = Timetable(scene)
    for number in range(5):
        await timetable.make(f"s{number}")
    await timetable.minute()
    leases = await scene.claim(10)
    for lease in leases[:3]:
        await scene.complete(lease)
    found: list[EndedRun] = []
    cursor = None
    rounds = 0
    while True:
        sweep = await timetable.store.ended_runs(2, cursor)
        found += sweep.ended
        rounds += 1
        cursor = sweep.cursor
        if cursor is None:
            break
    assert rounds >= 3
    assert [run.status for run in found] == [TaskStatus.COMPLETED] * 3
    assert not any(run.matters for run in found)
    await timetable.store.close_runs(found)
    assert (await timetable.store.ended_runs(10)).ended == []


async def test_a_failed_run_matters_until_one_succeeds(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(pause_after_failures=2)
    await timetable.minute()
    (lease,) = await scene.claim()
    await scene.settle(lease, Retried(BOOM, 0.0))
    for _ in range(3):
        (lease,) = await scene.claim()
        await scene.settle(lease, Retried(BOOM, 0.0))
    (run,) = (await timetable.store.ended_runs(10)).ended
    assert (run.status, run.matters) == (TaskStatus.FAILED, True)
    stored = await timetable.read()
    await timetable.store.commit_plans([planned(stored, scene.clock.now(), timetable.ids, [run])])
    assert (await timetable.read()).consecutive_failures == 1
    assert (await timetable.store.ended_runs(10)).ended == []
    await timetable.minute()
    (lease,) = await scene.claim()
    await scene.complete(lease)
    (run,) = (await timetable.store.ended_runs(10)).ended
    assert (run.status, run.matters) == (TaskStatus.COMPLETED, True)


async def test_a_backfill_runs_what_was_skipped_and_not_what_ran(scene: Scene) -> None:
    timetable = Timetable(scene)
    start = scene.clock.now()
    await timetable.make()
    await timetable.minute(3)
    stored = await timetable.read()
    ticks = tuple(
        NewTick(
            nominal_at=start + number * MINUTE,
            outcome=TickOutcome.TASK,
            kind=TickKind.BACKFILL,
            task=scene.task(tick=TickRef("report", start + number * MINUTE)),
        )
        for number in (1, 2, 3)
    )
    (answer,) = await timetable.store.commit_plans([SchedulePlan(schedule=stored, ticks=ticks)])
    assert answer.started == (start + MINUTE, start + 2 * MINUTE)
    assert len(await scene.claim(10)) == 3
    assert (await timetable.read()).unfinished == 1


async def test_a_problem_is_shown_and_the_schedule_tried_again_later(scene: Scene) -> None:
    timetable = Timetable(scene)
    made = await timetable.make()
    scene.clock.advance(60.0)
    await timetable.store.report_problem(made, "ValueError: bad", 30.0)
    stored = await timetable.read()
    assert (stored.problem, stored.problem_count) == ("ValueError: bad", 1)
    assert (await timetable.store.due_schedules(10)).schedules == []
    scene.clock.advance(30.0)
    assert (await timetable.plan())[0].is_stored
    assert (await timetable.read()).problem == ""


async def test_zone_prints_lead_to_their_schedules(scene: Scene) -> None:
    timetable = Timetable(scene)
    made = await timetable.make(timezone="Europe/Berlin")
    await timetable.make("utc")
    prints = await timetable.store.zone_prints()
    assert ("Europe/Berlin", made.zone_print) in prints
    assert len(prints) == 2
    found = await timetable.store.schedules_of_zone("Europe/Berlin", made.zone_print, 10)
    assert [one.name for one in found] == ["report"]
    assert await timetable.store.schedules_of_zone("Europe/Berlin", "other", 10) == []


async def test_old_ticks_go_and_open_runs_stay(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make(overlap="allow")
    await timetable.minute()
    await timetable.minute()
    (lease,) = await scene.claim()
    await scene.complete(lease)
    await timetable.store.close_runs((await timetable.store.ended_runs(10)).ended)
    assert await timetable.store.forget_ticks(1.0, 100) == 0
    scene.clock.advance(3 * 86400.0)
    assert await timetable.store.forget_ticks(1.0, 100) == 1
    (left,) = await timetable.history()
    assert left.task_status == "pending"


async def test_the_ticks_of_a_deleted_schedule_go(scene: Scene) -> None:
    timetable = Timetable(scene)
    made = await timetable.make()
    await timetable.minute()
    (lease,) = await scene.claim()
    await scene.complete(lease)
    await timetable.store.delete_schedule("report")
    await timetable.store.close_runs((await timetable.store.ended_runs(10)).ended)
    assert await timetable.store.forget_ticks(30.0, 100) == 1
    assert await timetable.store.ticks(made.id, 10) == []


async def test_a_cancelled_run_is_no_failure(scene: Scene) -> None:
    timetable = Timetable(scene)
    await timetable.make()
    await timetable.minute()
    task_id = (await timetable.history())[0].task_id
    assert task_id is not None
    assert await scene.cancel(task_id) is CancelState.CANCELLED
    (run,) = (await timetable.store.ended_runs(10)).ended
    assert (run.status, run.matters) == (TaskStatus.CANCELLED, False)


@pytest.mark.parametrize(
    "point",
    [
        HookPoint.TICK_BEFORE_INSERT,
        HookPoint.TICK_AFTER_INSERT,
        HookPoint.TICK_AFTER_COMMIT,
    ],
)
async def test_a_planner_that_dies_leaves_all_or_nothing(scene: Scene, point: HookPoint) -> None:
    timetable = Timetable(scene)
    is_stored = point is HookPoint.TICK_AFTER_COMMIT
    await timetable.make()
    scene.trap.breaking = {point}
    with pytest.raises(LostReplyError):
        await timetable.minute()
    scene.trap.breaking = set()
    assert len(await timetable.history()) == is_stored
    assert (await timetable.read()).revision == 1 + is_stored
    answers = await timetable.plan()
    assert len(answers) == (not is_stored)
    assert len(await timetable.history()) == 1
    assert len(await scene.claim(10)) == 1


async def test_a_change_wakes_the_planner(scene: Scene) -> None:
    timetable = Timetable(scene)
    wakeups = scene.store.wakeups()
    try:
        hints: frozenset[Hint] = frozenset()
        waiting = asyncio.ensure_future(wakeups.wait(30.0))
        while Hint.SCHEDULE not in hints:
            if not waiting.done():
                await asyncio.wait({waiting}, timeout=0.05)
            if waiting.done():
                hints = waiting.result()
                waiting = asyncio.ensure_future(wakeups.wait(30.0))
            elif await scene.store.get_schedule("report") is None:
                await timetable.make()
            else:
                stored = await timetable.read()
                await scene.store.replace_schedule(stored)
        waiting.cancel()
    finally:
        await wakeups.close()


async def test_it_is_known_when_a_planner_was_at_work(scene: Scene) -> None:
    store = Timetable(scene).store
    assert await store.last_round() is None
    await store.note_round()
    noted = scene.clock.now()
    assert await store.last_round() == noted
    scene.clock.advance(7.000001)
    await store.note_round()
    assert await store.last_round() == noted + timedelta(seconds=7.000001)


async def test_a_nominal_time_that_has_a_tick_gets_no_second_one(scene: Scene) -> None:
    """Whoever plans it again, by whatever mistake: what was planned is not what decides."""
    timetable = Timetable(scene)
    await timetable.make()
    scene.clock.advance(60.0)
    due = await scene.store.due_schedules(100)
    first, again = (planned(due.schedules[0], due.now, timetable.ids) for _ in range(2))
    (answer,) = await scene.store.commit_plans([first])
    assert len(answer.started) == 1
    scene.clock.advance(1.0)
    revision = (await timetable.read()).revision
    mistaken = msgspec.structs.replace(
        again, schedule=msgspec.structs.replace(again.schedule, revision=revision)
    )
    (answer,) = await scene.store.commit_plans([mistaken])
    assert (answer.is_stored, answer.started) == (True, ())
    assert len(await timetable.history()) == 1
    assert len(await scene.claim(10)) == 1
