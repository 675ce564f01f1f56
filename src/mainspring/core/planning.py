"""Between stored schedules and the pure planner: states, plans, ticks and their tasks."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec

from mainspring.domain.cron import zone_fingerprint
from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import beside
from mainspring.domain.schedule import (
    BackfillRun,
    OverlapPolicy,
    PlannedRun,
    ScheduleSpec,
    ScheduleState,
    ScheduleStatus,
    SkippedTimes,
    SkipReason,
    dump_spec,
    load_spec,
    plan,
    plan_manual,
    record_outcome,
)
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import NewTask, TickRef
from mainspring.ports.clock import IdSource
from mainspring.ports.schedules import (
    EndedRun,
    NewTick,
    SchedulePlan,
    StoredSchedule,
    TickKind,
    TickOutcome,
)

_CACHED_SPECS: Final = 16_384
_CACHED_LENGTH_MAX: Final = 4096
_INSTANT: Final = timedelta(microseconds=1)
_LAST_YEAR: Final = 2190


def spec_of(text: str) -> ScheduleSpec:
    """Read a stored spec; raises `InvalidValue` for one that is broken."""
    return _cached_spec(text) if len(text) <= _CACHED_LENGTH_MAX else _read_spec(text)


def spec_text(spec: ScheduleSpec) -> str:
    """Write a spec as it is stored."""
    return msgspec.json.encode(dump_spec(spec)).decode()


def state_of(stored: StoredSchedule) -> ScheduleState:
    """Return the state that the pure functions work on."""
    return ScheduleState(
        schedule_id=str(stored.id),
        spec=spec_of(stored.spec),
        status=stored.status,
        note=stored.note,
        version=stored.version,
        cursor_version=stored.cursor_version,
        next_nominal=stored.next_nominal,
        last_nominal=stored.last_nominal,
        runs=stored.runs,
        unfinished=stored.unfinished,
        buffered=stored.buffered,
        consecutive_failures=stored.consecutive_failures,
    )


def with_state(stored: StoredSchedule, state: ScheduleState, now: datetime) -> StoredSchedule:
    """Return the schedule with a new state, to be stored over the revision that was read."""
    spec = state.spec
    is_active = state.status is ScheduleStatus.ACTIVE
    return msgspec.structs.replace(
        stored,
        spec=spec_text(spec),
        timezone=spec.timezone,
        zone_print=zone_print(spec.timezone, now, state.next_nominal),
        status=state.status,
        note=state.note,
        version=state.version,
        cursor_version=state.cursor_version,
        next_nominal=state.next_nominal,
        last_nominal=state.last_nominal,
        runs=state.runs,
        buffered=state.buffered,
        consecutive_failures=state.consecutive_failures,
        plan_at=state.next_nominal if is_active else None,
    )


def planned(
    stored: StoredSchedule, now: datetime, ids: IdSource, ended: Sequence[EndedRun] = ()
) -> SchedulePlan:
    """Plan a schedule: first what its ended runs mean, then what is due by `now`."""
    state = state_of(stored)
    for run in sorted(ended, key=lambda run: run.ended_at or run.nominal_at):
        if run.matters:
            state = record_outcome(state, succeeded=run.status is TaskStatus.COMPLETED)
    step = plan(state, now)
    tolerance = state.spec.misfire.tolerance
    ticks = [
        *(_run_tick(stored, run, ids, tolerance) for run in step.runs),
        *(
            NewTick(nominal_at=nominal, outcome=TickOutcome.BUFFERED, until_at=None)
            for nominal in step.buffered
        ),
        *(_skipped_tick(skipped, now) for skipped in step.skipped),
    ]
    return SchedulePlan(
        schedule=_moved(stored, step.state, now),
        ticks=tuple(ticks),
        cancels_previous=any(run.cancels_previous for run in step.runs),
        ended=tuple(ended),
    )


def planned_by_hand(
    stored: StoredSchedule, now: datetime, ids: IdSource, overlap: OverlapPolicy | None
) -> SchedulePlan | SkipReason:
    """Plan the run that a person asks for, or say why there is none."""
    # A whole second may be a time of the timetable, whose run this is not.
    moment = now + _INSTANT if now.microsecond == 0 else now
    run = plan_manual(state_of(stored), moment, overlap)
    if isinstance(run, SkipReason):
        return run
    run = replace(run, run_at=now)
    tick = _run_tick(stored, run, ids, timedelta.max, TickKind.MANUAL)
    return SchedulePlan(schedule=stored, ticks=(tick,), cancels_previous=run.cancels_previous)


def planned_backfill(
    stored: StoredSchedule, runs: Sequence[BackfillRun], ids: IdSource
) -> SchedulePlan:
    """Plan runs for times of the past, all to run now, in the order of their times."""
    ticks = [
        NewTick(
            nominal_at=run.nominal,
            outcome=TickOutcome.TASK,
            kind=TickKind.BACKFILL,
            task=_task(stored, ids.task_id(), run.nominal, run.previous, None),
        )
        for run in runs
    ]
    return SchedulePlan(schedule=stored, ticks=tuple(ticks))


def zone_print(timezone: str, now: datetime, until: datetime | None) -> str:
    """Name the zone data that the times from now to a little after `until` depend on."""
    last = max(now, until or now).year + 2
    return _zone_print(timezone, now.year, min(last, _LAST_YEAR))


def is_current(timezone: str, known: str) -> bool:
    """Whether the zone data of this process give the same times as when the print was made."""
    years, _, _ = known.partition(":")
    first, dash, last = years.partition("-")
    if not (dash and first.isdigit() and last.isdigit()):
        return False
    return _zone_print(timezone, int(first), int(last)) == known


def _run_tick(
    stored: StoredSchedule,
    run: PlannedRun,
    ids: IdSource,
    tolerance: timedelta,
    kind: TickKind = TickKind.SCHEDULED,
) -> NewTick:
    # A time that waited for an earlier run is not late: its policy wanted that.
    is_late = run.lateness > tolerance and not run.from_buffer
    return NewTick(
        nominal_at=run.nominal,
        outcome=TickOutcome.TASK,
        kind=kind,
        lateness_seconds=run.lateness.total_seconds(),
        is_late=is_late,
        start_by=run.start_by,
        task=_task(stored, ids.task_id(), run.nominal, run.previous, run.run_at),
    )


def _skipped_tick(skipped: SkippedTimes, now: datetime) -> NewTick:
    return NewTick(
        nominal_at=skipped.first,
        outcome=TickOutcome.SKIPPED,
        reason=skipped.reason.value,
        until_at=skipped.last,
        count=skipped.count,
        is_exact=skipped.exact,
        lateness_seconds=max(0.0, (now - skipped.last).total_seconds()),
    )


def _task(
    stored: StoredSchedule,
    task_id: UUID,
    nominal: datetime,
    previous: datetime | None,
    at: datetime | None,
) -> NewTask:
    template = stored.template
    return NewTask(
        # What a schedule makes is stored together with its ticks, so in its partition.
        id=beside(task_id, stored.id),
        task_type=template.task_type,
        payload=template.payload,
        queue=template.queue,
        priority=template.priority,
        scheduled_at=at or nominal,
        timeout_seconds=template.timeout_seconds,
        max_retries=template.max_retries,
        backoff=template.backoff,
        group_key=template.group_key,
        unique_key=template.unique_key,
        webhook=template.webhook,
        tick=TickRef(stored.name, nominal, previous),
    )


def _moved(stored: StoredSchedule, state: ScheduleState, now: datetime) -> StoredSchedule:
    """`with_state` for a step that leaves the spec alone: it is not written anew."""
    return msgspec.structs.replace(
        stored,
        zone_print=zone_print(stored.timezone, now, state.next_nominal),
        status=state.status,
        note=state.note,
        cursor_version=state.cursor_version,
        next_nominal=state.next_nominal,
        last_nominal=state.last_nominal,
        runs=state.runs,
        buffered=state.buffered,
        consecutive_failures=state.consecutive_failures,
        plan_at=state.next_nominal if state.status is ScheduleStatus.ACTIVE else None,
    )


def _read_spec(text: str) -> ScheduleSpec:
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidValue(f"the stored schedule cannot be read: {error}", field="spec") from None
    return load_spec(data)


_cached_spec = lru_cache(maxsize=_CACHED_SPECS)(_read_spec)


@lru_cache(maxsize=4096)
def _zone_print(timezone: str, first_year: int, last_year: int) -> str:
    span = (datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year, 1, 1, tzinfo=UTC))
    return f"{first_year}-{last_year}:{zone_fingerprint(timezone, *span)}"
