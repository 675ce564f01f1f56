"""Schedules: what a user says, when it fires, and what a planner does about it. All pure."""

from mainspring.domain.cron import FoldRule, GapRule
from mainspring.domain.schedule.backfill import Backfill, BackfillRun, backfill
from mainspring.domain.schedule.calendar import ExclusionCalendar, ExclusionRule
from mainspring.domain.schedule.codec import dump_spec, load_spec
from mainspring.domain.schedule.plan import Plan, PlannedRun, SkippedTimes, SkipReason
from mainspring.domain.schedule.planner import plan, plan_manual
from mainspring.domain.schedule.policy import (
    MisfirePolicy,
    MisfireRule,
    OverlapPolicy,
    OverlapRule,
)
from mainspring.domain.schedule.preview import Preview, PreviewTime, preview
from mainspring.domain.schedule.spec import ScheduleKind, ScheduleSpec
from mainspring.domain.schedule.state import (
    ScheduleState,
    ScheduleStatus,
    apply_edit,
    create,
    pause,
    recompute,
    record_outcome,
    resume,
)
from mainspring.domain.schedule.timetable import (
    count_nominals,
    is_nominal,
    next_nominal,
    nominal_times,
    previous_nominal,
)

__all__ = [
    "Backfill",
    "BackfillRun",
    "ExclusionCalendar",
    "ExclusionRule",
    "FoldRule",
    "GapRule",
    "MisfirePolicy",
    "MisfireRule",
    "OverlapPolicy",
    "OverlapRule",
    "Plan",
    "PlannedRun",
    "Preview",
    "PreviewTime",
    "ScheduleKind",
    "ScheduleSpec",
    "ScheduleState",
    "ScheduleStatus",
    "SkipReason",
    "SkippedTimes",
    "apply_edit",
    "backfill",
    "count_nominals",
    "create",
    "dump_spec",
    "is_nominal",
    "load_spec",
    "next_nominal",
    "nominal_times",
    "pause",
    "plan",
    "plan_manual",
    "preview",
    "previous_nominal",
    "recompute",
    "record_outcome",
    "resume",
]
