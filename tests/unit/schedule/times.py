"""Short ways to write instants, schedules and days in the tests of schedules."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mainspring.domain.schedule import Plan, ScheduleSpec, ScheduleState, SkipReason, create, plan

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    """A UTC instant from ``2026-01-01`` or ``2026-01-01 09:00``."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(*texts: str, timezone: str = "UTC", **options: object) -> ScheduleSpec:
    return ScheduleSpec(crons=texts, timezone=timezone, **options)  # type: ignore[arg-type]


def made(spec: ScheduleSpec, at: str, schedule_id: str = "s") -> ScheduleState:
    return create(schedule_id, spec, utc(at))


def idle(state: ScheduleState) -> ScheduleState:
    """The schedule once all its runs have ended."""
    return replace(state, unfinished=0)


def ran(made_plan: Plan) -> list[datetime]:
    return [run.nominal for run in made_plan.runs]


def skips(made_plan: Plan) -> list[tuple[SkipReason, int]]:
    return [(skipped.reason, skipped.count) for skipped in made_plan.skipped]


def play(
    state: ScheduleState, start: datetime, end: datetime, step: timedelta
) -> Iterator[tuple[datetime, Plan]]:
    """Plan every ``step`` from ``start`` to ``end``; each run ends before the next plan."""
    now = start
    while now <= end:
        made_plan = plan(state, now)
        yield now, made_plan
        state = idle(made_plan.state)
        now += step
