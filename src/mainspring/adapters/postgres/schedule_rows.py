"""Between schedules, their ticks, and rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.rows import backoff_columns, backoff_of
from mainspring.adapters.postgres.webhooks import webhook_document, webhook_of
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.schedule.state import ScheduleStatus
from mainspring.domain.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
)
from mainspring.ports.schedules import (
    DEFAULT_TASK_PRIORITY,
    EndedRun,
    NewTick,
    SchedulePlan,
    StoredSchedule,
    TaskTemplate,
    Tick,
    TickKind,
    TickOutcome,
)

T = TypeVar("T")
_Columns = tuple[list[Any] | None, ...]


def schedule_of(row: Record) -> StoredSchedule:
    """Read a schedule."""
    return StoredSchedule(
        id=row["id"],
        name=row["name"],
        template=TaskTemplate(
            task_type=row["task_type"],
            payload=row["payload"],
            queue=row["queue"],
            priority=row["priority"],
            timeout_seconds=row["timeout_seconds"],
            max_retries=row["max_retries"],
            backoff=backoff_of(row["backoff_kind"], row["backoff"]),
            group_key=row["group_key"],
            unique_key=row["unique_key"],
            webhook=webhook_of(row["webhook"]),
        ),
        spec=row["spec"],
        timezone=row["timezone"],
        zone_print=row["zone_print"],
        status=ScheduleStatus(row["status"]),
        note=row["note"],
        version=row["version"],
        cursor_version=row["cursor_version"],
        next_nominal=row["next_nominal"],
        last_nominal=row["last_nominal"],
        runs=row["runs"],
        buffered=tuple(row["buffered"]),
        consecutive_failures=row["consecutive_failures"],
        plan_at=row["plan_at"],
        revision=row["revision"],
        problem=row["problem"],
        problem_count=row["problem_count"],
        unfinished=row["unfinished"],
        counts={} if row["counts"] is None else msgspec.json.decode(row["counts"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def schedule_row(schedule: StoredSchedule) -> tuple[Any, ...]:
    """Return a schedule as the arguments of the statements that store it, from its id on."""
    template = schedule.template
    kind, *numbers = backoff_columns(template.backoff) or (template.backoff.kind.value,)
    return (
        schedule.id,
        schedule.name,
        schedule.status,
        schedule.note,
        schedule.version,
        schedule.cursor_version,
        schedule.next_nominal,
        schedule.last_nominal,
        schedule.runs,
        _array(schedule.buffered),
        schedule.consecutive_failures,
        schedule.plan_at,
        schedule.timezone,
        schedule.zone_print,
        template.task_type,
        template.queue,
        template.priority,
        template.timeout_seconds,
        template.max_retries,
        kind,
        numbers or None,
        template.payload,
        schedule.spec,
        template.group_key,
        template.unique_key,
        None if template.webhook is None else msgspec.json.encode(template.webhook).decode(),
    )


def plan_columns(plans: Sequence[SchedulePlan]) -> tuple[list[Any] | None, ...]:
    """Return plans as the arguments of `commit_plans`, from the schedules on.

    A column of a tick or task in which everything has the default is None, which costs nothing.
    """
    schedules = [plan.schedule for plan in plans]
    ticks = [(plan.schedule, tick) for plan in plans for tick in plan.ticks]
    return (
        [schedule.id for schedule in schedules],
        [schedule.revision for schedule in schedules],
        [schedule.status.value for schedule in schedules],
        [schedule.note for schedule in schedules],
        [schedule.cursor_version for schedule in schedules],
        [schedule.next_nominal for schedule in schedules],
        [schedule.last_nominal for schedule in schedules],
        [schedule.runs for schedule in schedules],
        [_array(schedule.buffered) for schedule in schedules],
        [schedule.consecutive_failures for schedule in schedules],
        [schedule.plan_at for schedule in schedules],
        [schedule.zone_print for schedule in schedules],
        [plan.cancels_previous for plan in plans],
        *_tick_columns(ticks),
        *_task_columns(ticks),
        *ended_columns([run for plan in plans for run in plan.ended]),
    )


def key_columns(plans: Sequence[SchedulePlan]) -> tuple[Any, ...]:
    """Return the last arguments of `commit_plans`: the group and unique keys of the tasks, in their
    order, and their webhooks.
    """
    tasks = [tick.task for plan in plans for tick in plan.ticks if tick.task is not None]
    return (
        _unless_all([task.group_key for task in tasks], None),
        _unless_all([task.unique_key for task in tasks], None),
        webhook_document(tasks),
    )


def ended_columns(runs: Sequence[EndedRun]) -> tuple[list[Any], ...]:
    """Return ended runs as columns: schedule, nominal time, state and end."""
    return (
        [run.schedule_id for run in runs],
        [run.nominal_at for run in runs],
        [None if run.status is None else run.status.value for run in runs],
        [run.ended_at for run in runs],
    )


def tick_of(row: Record) -> Tick:
    """Read a tick."""
    return Tick(
        nominal_at=row["nominal_at"],
        outcome=TickOutcome(row["outcome"]),
        kind=TickKind(row["kind"]),
        reason=row["reason"],
        until_at=row["until_at"],
        count=row["count"],
        is_exact=row["exact"],
        lateness_seconds=row["lateness_seconds"],
        decided_at=row["decided_at"],
        task_id=row["task_id"],
        task_status=row["task_status"],
    )


def _tick_columns(ticks: Sequence[tuple[StoredSchedule, NewTick]]) -> _Columns:
    return (
        [schedule.id for schedule, _ in ticks],
        [tick.nominal_at for _, tick in ticks],
        _unless_all([tick.outcome.value for _, tick in ticks], TickOutcome.TASK.value),
        _unless_all([tick.kind.value for _, tick in ticks], TickKind.SCHEDULED.value),
        _unless_all([tick.reason for _, tick in ticks], None),
        _unless_all([tick.until_at for _, tick in ticks], None),
        _unless_all([tick.count for _, tick in ticks], 1),
        _unless_all([tick.is_exact for _, tick in ticks], default=True),
        [tick.lateness_seconds for _, tick in ticks],
        _unless_all([tick.is_late for _, tick in ticks], default=False),
        _unless_all([tick.start_by for _, tick in ticks], None),
        [None if tick.task is None else tick.task.id for _, tick in ticks],
    )


def _task_columns(ticks: Sequence[tuple[StoredSchedule, NewTick]]) -> _Columns:
    rows = [(schedule, tick, tick.task) for schedule, tick in ticks if tick.task is not None]
    tasks = [task for _, _, task in rows]
    return (
        [task.id for task in tasks],
        [task.task_type for task in tasks],
        [task.payload for task in tasks],
        _unless_all([task.queue for task in tasks], DEFAULT_QUEUE),
        _unless_all([task.priority for task in tasks], DEFAULT_TASK_PRIORITY),
        [task.scheduled_at or tick.nominal_at for _, tick, task in rows],
        _unless_all([task.timeout_seconds for task in tasks], DEFAULT_TIMEOUT_SECONDS),
        _unless_all([task.max_retries for task in tasks], DEFAULT_MAX_RETRIES),
        _unless_all([task.backoff.kind.value for task in tasks], BackoffKind.EXPONENTIAL.value),
        _unless_all([_numbers(task.backoff) for task in tasks], None),
        [schedule.name for schedule, _, _ in rows],
        [tick.nominal_at for _, tick, _ in rows],
        [None if task.tick is None else task.tick.previous_nominal_at for task in tasks],
    )


def _unless_all(values: list[T], default: T) -> list[T] | None:
    return None if all(value == default for value in values) else values


def _numbers(backoff: Backoff) -> str | None:
    columns = backoff_columns(backoff)
    return None if columns is None else "{" + ",".join(map(repr, columns[1:])) + "}"


def _array(moments: Sequence[datetime]) -> str:
    """Write an array as text: arrays of arrays have to be of one length."""
    return "{" + ",".join(f'"{moment.isoformat()}"' for moment in moments) + "}"
