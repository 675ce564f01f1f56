"""What travels over the wire about schedules."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mainspring.api.schemas import (
    BackoffIn,
    GroupKey,
    In,
    Instant,
    Labels,
    Name,
    Priority,
    Retries,
    Seconds,
    Url,
    WebhookIn,
)
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import OnConflict
from mainspring.domain.retry import BackoffKind
from mainspring.domain.schedule import BackfillRun, OverlapRule
from mainspring.ports.schedules import Tick

Cron = Annotated[str, Meta(min_length=1, max_length=1000)]
Zone = Annotated[str, Meta(min_length=1, max_length=100)]
Span = Annotated[float, Meta(ge=0, le=3653 * 86400)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Word = Annotated[str, Meta(min_length=1, max_length=50)]
Note = Annotated[str, Meta(max_length=1000)]
RunKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern="^[ -~]+$",
        description=(
            "While a task with it (and the same group key) is live, no run is made beside it: its "
            "time is recorded as skipped, with the id of that task"
        ),
    ),
]


class TimetableIn(In, frozen=True, kw_only=True):
    """When a schedule runs: one of `cron`, `every` (seconds) and `at`, in a time zone."""

    cron: Cron | list[Cron] | None = None
    every: Span | None = None
    at: Instant | None = None
    timezone: Zone | None = None
    anchor: Instant | None = None
    gap: Word | None = None
    fold: Word | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    exclusions: Annotated[list[dict[str, Any]], Meta(max_length=100)] | None = None
    jitter: Span | None = None
    max_runs: Count | None = None


class OptionsIn(TimetableIn, frozen=True, kw_only=True):
    """A timetable, its policies, and what each run submits."""

    payload: dict[str, Any] | None = None
    misfire: Word | None = None
    misfire_window: Span | None = None
    misfire_limit: Count | None = None
    misfire_tolerance: Span | None = None
    overlap: Word | None = None
    overlap_limit: Count | None = None
    start_deadline: Span | None = None
    pause_after_failures: Count | None = None
    queue: Name | None = None
    labels: Labels | None = None
    priority: Priority | None = None
    timeout: Seconds | None = None
    max_retries: Retries | None = None
    retry_backoff: BackoffKind | BackoffIn | None = None
    group_key: GroupKey | None = None
    unique_key: RunKey | None = None
    webhook: Url | WebhookIn | None = None


class ScheduleIn(OptionsIn, frozen=True, kw_only=True):
    """A new schedule."""

    name: Name
    task_type: Name
    on_conflict: OnConflict = OnConflict.ERROR


class ScheduleChangeIn(OptionsIn, frozen=True, kw_only=True):
    """What is to be different; options named in `clear` have their defaults again."""

    task_type: Name | None = None
    clear: Annotated[list[Word], Meta(max_length=50)] | None = None


class PreviewIn(TimetableIn, frozen=True, kw_only=True):
    """A timetable to look at, without making a schedule of it."""

    after: Instant | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 10


class PauseIn(In, frozen=True, kw_only=True):
    """Why a schedule is paused."""

    note: Note = ""


class ResumeIn(In, frozen=True, kw_only=True):
    """`catch_up` hands the times of the pause to the misfire policy; else they are forgotten."""

    note: Note = ""
    catch_up: bool = False


class TriggerIn(In, frozen=True, kw_only=True):
    """An overlap policy to use instead of the schedule's own."""

    overlap: OverlapRule | None = None


class BackfillIn(In, frozen=True, kw_only=True):
    """A span of nominal times to run now: from `start` on, before `end`."""

    start: Instant
    end: Instant
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    dry_run: bool = False


class HistoryQuery(In, frozen=True, kw_only=True):
    """Which of the ticks of a schedule to list, newest first."""

    before: Instant | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class SchedulesOut(msgspec.Struct, frozen=True, kw_only=True):
    """All schedules, by name."""

    schedules: list[Schedule]
    partial: bool = False
    """A part of the store did not answer, so schedules that are in it are missing here."""


class TicksOut(msgspec.Struct, frozen=True, kw_only=True):
    """What became of nominal times, newest first."""

    ticks: list[Tick]


class BackfillOut(msgspec.Struct, frozen=True, kw_only=True):
    """The nominal times of a span, each with the one before, and those that became tasks."""

    runs: list[BackfillRun]
    nominal: list[datetime]
    started: list[datetime]
    truncated: bool
    dry_run: bool


class DeletedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The name of what is gone."""

    name: str
