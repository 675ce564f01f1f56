"""`ScheduleSpec`: everything a user says about a schedule, validated."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from mainspring.domain.cron import CronExpression, FoldRule, GapRule, parse_cron, wall_clock
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule.calendar import ExclusionCalendar
from mainspring.domain.schedule.policy import MisfirePolicy, OverlapPolicy
from mainspring.domain.values import check_instant

EXPRESSIONS_MAX = 20
CALENDARS_MAX = 20
RUNS_MAX = 1_000_000_000
FAILURES_MAX = 1_000
LONGEST_INTERVAL = timedelta(days=3660)
LONGEST_JITTER = timedelta(days=1)
LONGEST_DEADLINE = timedelta(days=366)

_ZERO = timedelta()
DEFAULT_MISFIRE = MisfirePolicy()
DEFAULT_OVERLAP = OverlapPolicy()


class ScheduleKind(StrEnum):
    """How the nominal times of a schedule are given."""

    CRON = "cron"
    INTERVAL = "interval"
    ONE_OFF = "one_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """When a schedule fires and by which policies. Exactly one kind must be given.

    * ``crons``: 1 to 20 cron expressions; the schedule fires at the union of their times, read in
      ``timezone`` with the ``gap`` and ``fold`` rules.
    * ``every`` and ``anchor``: the times ``anchor + n x every``, in elapsed time whatever the
      clocks do; 1 second to 3660 days in whole seconds. The anchor is cut to the second; left
      out, it is the start or else the time of creation (`with_anchor`), and an edit keeps it.
    * ``at``: one time.

    ``start_at`` and ``end_at`` bound the nominal times, both included. ``exclusions`` take times
    out. ``jitter`` (0 to 1 day) delays a run by less than itself, always the same for the same
    schedule and nominal time, and never beyond the next nominal time. ``max_runs`` ends the
    schedule after so many runs, manual ones not counted. ``start_deadline`` drops a run that
    could not start within it after its time. ``pause_after_failures`` pauses the schedule after
    so many runs failed for good in a row. Anything else raises `InvalidValue`.
    """

    crons: tuple[str, ...] = ()
    every: timedelta | None = None
    anchor: datetime | None = None
    at: datetime | None = None
    timezone: str = "UTC"
    gap: GapRule = GapRule.RUN
    fold: FoldRule = FoldRule.AUTO
    start_at: datetime | None = None
    end_at: datetime | None = None
    exclusions: tuple[ExclusionCalendar, ...] = ()
    jitter: timedelta = _ZERO
    max_runs: int | None = None
    misfire: MisfirePolicy = DEFAULT_MISFIRE
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    start_deadline: timedelta | None = None
    pause_after_failures: int | None = None

    def __post_init__(self) -> None:
        wall_clock(self.timezone)
        self._check_kind()
        self._check_instants()
        if len(self.exclusions) > CALENDARS_MAX:
            raise InvalidValue(
                f"The schedule has {len(self.exclusions)} exclusion calendars; at most"
                f" {CALENDARS_MAX} are accepted, so join some.",
                field="exclusions",
            )
        _check_duration("jitter", self.jitter, _ZERO, LONGEST_JITTER)
        if self.every is not None and self.jitter >= self.every:
            raise InvalidValue(
                f"The jitter {self.jitter} is not shorter than the interval {self.every}; runs"
                " would pass each other, so choose a shorter jitter.",
                field="jitter",
            )
        if self.start_deadline is not None:
            _check_duration(
                "start_deadline", self.start_deadline, timedelta(seconds=1), LONGEST_DEADLINE
            )
        _check_count("max_runs", self.max_runs, RUNS_MAX)
        _check_count("pause_after_failures", self.pause_after_failures, FAILURES_MAX)

    @property
    def kind(self) -> ScheduleKind:
        """Which of the three kinds this is."""
        if self.crons:
            return ScheduleKind.CRON
        return ScheduleKind.INTERVAL if self.every is not None else ScheduleKind.ONE_OFF

    @property
    def expressions(self) -> tuple[CronExpression, ...]:
        """The parsed cron expressions; empty for the other kinds."""
        return tuple(parse_cron(text, self.timezone, self.gap, self.fold) for text in self.crons)

    @property
    def timing(self) -> tuple[object, ...]:
        """What decides the nominal times: two specs with equal timing have the same ones."""
        return (
            tuple(expression.normalized for expression in self.expressions),
            self.every,
            self.anchor,
            self.at,
            self.timezone,
            self.gap,
            self.fold,
            self.start_at,
            self.end_at,
            self.exclusions,
        )

    def with_anchor(self, created_at: datetime) -> Self:
        """The spec with the anchor that an interval schedule made at ``created_at`` counts from."""
        if self.every is None or self.anchor is not None:
            return self
        return replace(self, anchor=self.start_at or created_at)

    def _check_kind(self) -> None:
        given = [bool(self.crons), self.every is not None, self.at is not None]
        if sum(given) != 1:
            raise InvalidValue(
                "A schedule needs exactly one of cron expressions, an interval ('every') and a"
                f" single time ('at'); {sum(given)} were given.",
                field="schedule",
            )
        if len(self.crons) > EXPRESSIONS_MAX:
            raise InvalidValue(
                f"The schedule has {len(self.crons)} cron expressions; at most {EXPRESSIONS_MAX}"
                " are accepted, so make several schedules.",
                field="cron_expression",
            )
        _ = self.expressions
        if self.every is None:
            return
        _check_duration("every", self.every, timedelta(seconds=1), LONGEST_INTERVAL)
        if self.every % timedelta(seconds=1):
            raise InvalidValue(
                f"The interval {self.every} is not a whole number of seconds; round it.",
                field="every",
            )

    def _check_instants(self) -> None:
        for name in ("anchor", "at", "start_at", "end_at"):
            value = getattr(self, name)
            if value is not None:
                instant = check_instant(value, name)
                if name == "anchor":
                    instant = instant.replace(microsecond=0)
                object.__setattr__(self, name, instant)
        if self.start_at is not None and self.end_at is not None and self.end_at < self.start_at:
            raise InvalidValue(
                f"The schedule ends at {self.end_at.isoformat()}, before it starts at"
                f" {self.start_at.isoformat()}; swap or change them.",
                field="end_at",
            )


def _check_duration(field: str, value: timedelta, low: timedelta, high: timedelta) -> None:
    if not low <= value <= high:
        raise InvalidValue(f"The value of {field} is {value}; choose {low} to {high}.", field=field)


def _check_count(field: str, value: int | None, high: int) -> None:
    if value is not None and not 1 <= value <= high:
        raise InvalidValue(f"The value of {field} is {value}; choose 1 to {high}.", field=field)
