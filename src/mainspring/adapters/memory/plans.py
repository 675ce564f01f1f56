"""Schedules as the planner works on them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from mainspring.adapters.memory.partitions import MemoryEpochs, is_in
from mainspring.adapters.memory.schedules import MemoryScheduling, ScheduleTables, TickRow, is_live
from mainspring.adapters.memory.tables import Tables
from mainspring.adapters.memory.tasks import new_row
from mainspring.domain.schedule.plan import SkipReason
from mainspring.domain.schedule.state import ScheduleStatus
from mainspring.domain.status import TaskStatus, Transition
from mainspring.domain.task import NewTask
from mainspring.ports.coordination import Fence
from mainspring.ports.hooks import HookPoint
from mainspring.ports.schedules import (
    Committed,
    DueSchedules,
    EndedRun,
    ExpiredRun,
    NewTick,
    SchedulePlan,
    StoredSchedule,
    Sweep,
    TickKind,
    TickOutcome,
)
from mainspring.ports.store import Hint

CANCELLED_BY_NEXT: Final = "a later run of its schedule took its place"
NOT_STARTED: Final = "it had not started by its start deadline"


class MemoryPlanning(MemoryScheduling, MemoryEpochs):
    """The part of `ports.schedules.ScheduleStore` that the planner uses."""

    def __init__(self, tables: Tables) -> None:
        MemoryScheduling.__init__(self, tables)
        MemoryEpochs.__init__(self)

    async def due_schedules(self, limit: int, fence: Fence | None = None) -> DueSchedules:
        """Return the schedules to plan now."""
        tables = self._schedule_tables
        now = tables.tables.now()
        schedules = [one for one in tables.schedules.values() if is_in(fence, one.id)]
        due = {
            one.id: one.plan_at
            for one in schedules
            if one.plan_at is not None and one.plan_at <= now
        }
        for one in schedules:
            if (
                one.buffered
                and one.status is ScheduleStatus.ACTIVE
                and not one.problem_count
                and not tables.live_runs(one.id)
            ):
                due.setdefault(one.id, now)
        ordered = sorted(due, key=lambda one: (due[one], one.int))[:limit]
        coming = [one.plan_at for one in schedules if one.plan_at is not None and one.plan_at > now]
        next_seconds = (min(coming) - now).total_seconds() if coming else None
        found = [tables.read(one) for one in ordered]
        return DueSchedules(found, now, None if len(found) >= limit else next_seconds)

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        """Carry out plans, each as a whole or not at all."""
        if not plans:
            return []
        tables = self._schedule_tables.tables
        await tables.hooks.reach(HookPoint.TICK_BEFORE_INSERT)
        # Whoever is stopped here has stored nothing, as in a transaction that did not commit.
        await tables.hooks.reach(HookPoint.TICK_AFTER_INSERT)
        answers = [
            carry_out(self._schedule_tables, plan)
            if self.holds(fence, plan.schedule.id)
            else Committed(is_stored=False, is_stale=True)
            for plan in plans
        ]
        await tables.hooks.reach(HookPoint.TICK_AFTER_COMMIT)
        return answers

    async def report_problem(
        self, schedule: StoredSchedule, problem: str, seconds: float, fence: Fence | None = None
    ) -> None:
        """Note why a schedule could not be planned."""
        tables = self._schedule_tables
        known = tables.schedules.get(schedule.id)
        is_ours = self.holds(fence, schedule.id)
        if is_ours and known is not None and known.revision == schedule.revision:
            tables.schedules[schedule.id] = msgspec.structs.replace(
                known,
                problem=problem,
                problem_count=known.problem_count + 1,
                revision=known.revision + 1,
                plan_at=tables.tables.now() + timedelta(seconds=seconds),
            )

    async def ended_runs(
        self, limit: int, after: tuple[UUID, datetime] | None = None, fence: Fence | None = None
    ) -> Sweep:
        """Return those of a part of the open runs that have ended."""
        tables = self._schedule_tables
        places = sorted(
            (schedule_id, moment)
            for schedule_id, rows in tables.ticks.items()
            if is_in(fence, schedule_id)
            for moment, row in rows.items()
            if row.is_open and (after is None or (schedule_id, moment) > after)
        )[:limit]
        ended = [
            _ended(tables, schedule_id, tables.ticks[schedule_id][moment])
            for schedule_id, moment in places
            if not is_live(tables.tables, tables.ticks[schedule_id][moment])
        ]
        return Sweep(ended, places[-1] if len(places) == limit else None)

    async def close_runs(self, runs: Sequence[EndedRun], fence: Fence | None = None) -> None:
        """Note that runs have ended."""
        for run in runs:
            if self.holds(fence, run.schedule_id):
                _close(self._schedule_tables, run)

    async def expire_starts(self, limit: int, fence: Fence | None = None) -> list[ExpiredRun]:
        """Drop runs that have not started by their deadline."""
        del limit
        tables = self._schedule_tables
        now = tables.tables.now()
        overdue = [
            (schedule_id, row)
            for schedule_id, rows in tables.ticks.items()
            if self.holds(fence, schedule_id)
            for row in rows.values()
            if row.is_open and row.start_by is not None and row.start_by < now
        ]
        expired = []
        for schedule_id, row in overdue:
            row.start_by = None
            task = None if row.task_id is None else tables.tables.find(row.task_id)
            if task is None or task.status is not TaskStatus.PENDING or task.started_at is not None:
                continue
            task.reason = NOT_STARTED
            tables.tables.move(task, Transition.CANCEL_WAITING)
            row.tick = msgspec.structs.replace(
                row.tick, outcome=TickOutcome.SKIPPED, reason=SkipReason.START_DEADLINE.value
            )
            row.task_status = TaskStatus.CANCELLED.value
            row.ended_at = now
            tables.count(schedule_id, f"skipped:{SkipReason.START_DEADLINE}", 1)
            name = "" if task.tick is None else task.tick.schedule
            expired.append(ExpiredRun(name, row.tick.nominal_at))
        return expired


def carry_out(tables: ScheduleTables, plan: SchedulePlan) -> Committed:
    """Carry out one plan if the schedule has not changed since."""
    schedule = plan.schedule
    if not tables.save(schedule):
        return Committed(is_stored=False)
    if plan.cancels_previous:
        _cancel_previous(tables, schedule.id)
    started, met = [], []
    for planned in plan.ticks:
        twin = _twin(tables.tables, planned.task)
        tick = planned if twin is None else _skipped(planned)
        if not store_tick(tables, schedule.id, tick, twin):
            continue
        if tick.outcome is TickOutcome.SKIPPED:
            tables.count(schedule.id, f"skipped:{tick.reason}", tick.count)
        if tick.is_late:
            tables.count(schedule.id, "late", 1)
        if twin is not None:
            met.append(tick.nominal_at)
        if tick.task is not None:
            _submit(tables.tables, tick.task)
            started.append(tick.nominal_at)
    for run in plan.ended:
        _close(tables, run)
    return Committed(is_stored=True, started=tuple(sorted(started)), met=tuple(sorted(met)))


def _twin(tables: Tables, task: NewTask | None) -> UUID | None:
    """Return the live task that has the unique key of a new one."""
    if task is None or task.unique_key is None:
        return None
    return tables.unique.get((task.group_key or "", task.unique_key))


def _skipped(tick: NewTick) -> NewTick:
    """Return the tick of a run that is not made beside a live task of its unique key."""
    return msgspec.structs.replace(
        tick,
        outcome=TickOutcome.SKIPPED,
        reason=SkipReason.UNIQUE.value,
        is_late=False,
        start_by=None,
        task=None,
    )


def store_tick(
    tables: ScheduleTables, schedule_id: UUID, tick: NewTick, twin: UUID | None = None
) -> bool:
    """Store a tick unless its nominal time has one; `twin` was live in place of its task."""
    rows = tables.ticks.setdefault(schedule_id, {})
    known = rows.get(tick.nominal_at)
    stored = tick
    if known is not None:
        is_backfill = tick.kind is TickKind.BACKFILL
        was_skipped = known.tick.outcome is TickOutcome.SKIPPED
        if known.tick.outcome is not TickOutcome.BUFFERED and not (is_backfill and was_skipped):
            return False
        stored = msgspec.structs.replace(
            tick,
            reason=tick.reason or known.tick.reason,
            until_at=known.tick.until_at,
            count=known.tick.count,
            is_exact=known.tick.is_exact,
        )
    rows[tick.nominal_at] = TickRow(
        stored,
        tables.tables.now(),
        task_id=twin if tick.task is None else tick.task.id,
        start_by=tick.start_by,
    )
    return True


def _submit(tables: Tables, task: NewTask) -> None:
    row = new_row(task, tables.now())
    row.tick = task.tick
    tables.insert(row)
    if task.webhook is not None:
        tables.webhooks[row.id] = task.webhook
        tables.queues.setdefault(task.webhook.queue, False)
    tables.board.post(Hint.READY)


def _cancel_previous(tables: ScheduleTables, schedule_id: UUID) -> None:
    for row in tables.ticks.get(schedule_id, {}).values():
        task = tables.tables.live.get(row.task_id) if row.is_open and row.task_id else None
        if task is None or row.tick.kind is TickKind.BACKFILL:
            continue
        task.reason = task.reason or CANCELLED_BY_NEXT
        if task.status is TaskStatus.RUNNING:
            task.cancel_requested = True
            tables.tables.board.post(Hint.CANCEL)
        else:
            tables.tables.move(task, Transition.CANCEL_WAITING)


def _ended(tables: ScheduleTables, schedule_id: UUID, row: TickRow) -> EndedRun:
    task = None if row.task_id is None else tables.tables.find(row.task_id)
    status = None if task is None else task.status
    schedule = tables.schedules.get(schedule_id)
    failures = 0 if schedule is None else schedule.consecutive_failures
    return EndedRun(
        schedule_id=schedule_id,
        nominal_at=row.tick.nominal_at,
        status=status,
        ended_at=None if task is None else task.completed_at,
        matters=row.tick.kind is not TickKind.BACKFILL
        and (
            status in {TaskStatus.FAILED, TaskStatus.DISCARDED}
            or (status is TaskStatus.COMPLETED and failures > 0)
        ),
    )


def _close(tables: ScheduleTables, run: EndedRun) -> None:
    row = tables.ticks.get(run.schedule_id, {}).get(run.nominal_at)
    if row is not None and row.ended_at is None:
        row.ended_at = run.ended_at or tables.tables.now()
        row.task_status = None if run.status is None else run.status.value
