"""Backfill: the nominal times of a past span, listed before anything is submitted."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule.spec import ScheduleSpec
from mainspring.domain.schedule.timetable import next_nominal, previous_nominal

BACKFILL_MAX = 10_000

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class BackfillRun:
    """One nominal time to backfill; the run covers the data from ``previous`` up to it."""

    nominal: datetime
    previous: datetime | None


@dataclass(frozen=True, slots=True)
class Backfill:
    """The runs, oldest first; ``truncated`` if the span holds more than the limit."""

    runs: tuple[BackfillRun, ...]
    truncated: bool


def backfill(spec: ScheduleSpec, start: datetime, end: datetime, limit: int = 1_000) -> Backfill:
    """The nominal times from ``start`` (included) to ``end`` (not included).

    ``limit``: 1 to 10,000 runs. Pure, so it serves as the dry run. To go on after a truncated
    backfill, start from just after its last nominal time.
    """
    if not 1 <= limit <= BACKFILL_MAX:
        raise InvalidValue(
            f"The limit of the backfill is {limit}; choose 1 to {BACKFILL_MAX}.", field="limit"
        )
    if end <= start:
        raise InvalidValue(
            f"The backfill ends at {end.isoformat()}, not later than its start"
            f" {start.isoformat()}; choose a later end.",
            field="end",
        )
    spec = spec.with_anchor(start)
    runs: list[BackfillRun] = []
    found = next_nominal(spec, start - _INSTANT)
    previous = None if found is None else previous_nominal(spec, found)
    while found is not None and found < end:
        if len(runs) == limit:
            return Backfill(tuple(runs), truncated=True)
        runs.append(BackfillRun(found, previous))
        found, previous = next_nominal(spec, found), found
    return Backfill(tuple(runs), truncated=False)
