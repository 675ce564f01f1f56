"""The nominal times of a schedule: pure functions of the spec, the zone data and an instant."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from mainspring.domain.cron import last_before, wall_clock
from mainspring.domain.schedule.calendar import (
    MOVE_DAYS_MAX,
    ExclusionCalendar,
    ExclusionRule,
    covers_hour,
    day_calendar,
    is_crossed,
    is_whole_day,
    target_day,
)
from mainspring.domain.schedule.spec import ScheduleSpec

# Searching past exclusions ends here, so that a schedule whose every time is excluded costs a
# bounded time; each step leaps over a whole excluded hour or day where it can.
_EXCLUDED_STEPS_MAX = 2_000
_COUNT_MAX = 1_000
_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class NominalCount:
    """How many nominal times a span holds; ``exact`` is false when counting stopped early."""

    count: int
    exact: bool


def next_nominal(spec: ScheduleSpec, after: datetime) -> datetime | None:
    """The first nominal time strictly later than ``after``, in UTC, or None if there is none.

    None also means: none within 50 years, or none found past the exclusions.
    """
    after = after.astimezone(UTC)
    if spec.start_at is not None and after < spec.start_at:
        after = spec.start_at - _INSTANT
    if spec.end_at is not None and after >= spec.end_at:
        return None
    try:
        if any(calendar.rule is not ExclusionRule.SKIP for calendar in spec.exclusions):
            found = _next_moved(spec, after)
        elif spec.exclusions:
            found = _next_kept(spec, after)
        else:
            found = _next_raw(spec, after)
    except OverflowError:
        return None
    if found is not None and spec.end_at is not None and found > spec.end_at:
        return None
    return found


def previous_nominal(spec: ScheduleSpec, before: datetime) -> datetime | None:
    """The last nominal time strictly earlier than ``before``, in UTC, or None."""
    if spec.at is not None:
        found = next_nominal(spec, spec.at - _INSTANT)
        return found if found is not None and found < before else None
    return last_before(lambda instant: next_nominal(spec, instant), before)


def is_nominal(spec: ScheduleSpec, instant: datetime) -> bool:
    """True if the schedule has exactly this nominal time."""
    return next_nominal(spec, instant - _INSTANT) == instant


def nominal_times(spec: ScheduleSpec, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every nominal time from ``start`` (included) to ``end`` (included), ascending."""
    found = next_nominal(spec, start - _INSTANT)
    while found is not None and found <= end:
        yield found
        found = next_nominal(spec, found)


def latest_nominals(
    spec: ScheduleSpec, start: datetime, end: datetime, limit: int
) -> list[datetime]:
    """The last ``limit`` nominal times from ``start`` to ``end`` (both included), ascending."""
    back = _MINUTE
    while True:
        first = max(start, end - back)
        times = list(nominal_times(spec, first, end))
        if len(times) >= limit or first == start:
            return times[-limit:]
        back *= 2


def count_nominals(spec: ScheduleSpec, start: datetime, end: datetime) -> NominalCount:
    """How many nominal times lie from ``start`` to ``end``, both included; counts to 1,000."""
    if spec.every is not None and not spec.exclusions:
        first = next_nominal(spec, start - _INSTANT)
        if first is None or first > end:
            return NominalCount(0, exact=True)
        last = end if spec.end_at is None else min(end, spec.end_at)
        return NominalCount((last - first) // spec.every + 1, exact=True)
    count = 0
    for _ in nominal_times(spec, start, end):
        if count == _COUNT_MAX:
            return NominalCount(count, exact=False)
        count += 1
    return NominalCount(count, exact=True)


def _next_raw(spec: ScheduleSpec, after: datetime) -> datetime | None:
    """The next time before exclusions are applied."""
    if spec.at is not None:
        return spec.at if spec.at > after else None
    if spec.every is not None:
        if spec.anchor is None:
            raise ValueError("An interval has no times before it has an anchor; use with_anchor.")
        passed = (after - spec.anchor) // spec.every
        return spec.anchor + max(passed + 1, 0) * spec.every
    if len(spec.crons) == 1:
        return spec.expressions[0].next_after(after)
    times = [cron.next_after(after) for cron in spec.expressions]
    return min((found for found in times if found is not None), default=None)


def _next_kept(spec: ScheduleSpec, after: datetime) -> datetime | None:
    """The next time that no calendar excludes, when every calendar skips."""
    clock = wall_clock(spec.timezone)
    for _ in range(_EXCLUDED_STEPS_MAX):
        found = _next_raw(spec, after)
        if found is None:
            return None
        wall = clock.local(found).replace(tzinfo=None, fold=0)
        if day_calendar(spec.exclusions, wall.date()) is not None:
            after = max(found, _day_start(spec, wall.date() + _DAY) - _INSTANT)
            continue
        pattern = _partial_pattern(spec.exclusions, wall)
        if pattern is None:
            return found
        after = found
        if pattern:
            hour_end = found + (59 - wall.minute) * _MINUTE
            # A clock change within the hour would make the leap miss times; then go minute-wise.
            if clock.offset(hour_end) == clock.offset(found):
                after = hour_end
    return None


def _partial_pattern(calendars: tuple[ExclusionCalendar, ...], wall: datetime) -> bool | None:
    """None if no pattern excludes ``wall``, else whether the pattern covers its whole hour."""
    for calendar in calendars:
        matcher = calendar.pattern_at(wall)
        if matcher is not None and not is_whole_day(matcher):
            return covers_hour(matcher)
    return None


def _next_moved(spec: ScheduleSpec, after: datetime) -> datetime | None:
    """The next time when a calendar moves times to other days.

    A time moves only across days that are excluded or weekend, so the days looked at begin and
    end with such a row of days around ``after`` and around the best time found.
    """
    best: datetime | None = None
    first_day = _end_of_row(spec, _local_date(spec, after), -_DAY)
    last_day: date | None = None
    source = _day_start(spec, first_day) - _INSTANT
    for _ in range(_EXCLUDED_STEPS_MAX):
        raw = _next_raw(spec, source)
        if raw is None:
            return best
        day = _local_date(spec, raw)
        if last_day is not None and day > last_day:
            return best
        found = _first_on_day(spec, raw, day, after)
        if found is not None and (best is None or found < best):
            best = found
            last_day = _end_of_row(spec, _local_date(spec, best), _DAY)
        source = max(raw, _day_start(spec, day + _DAY) - _INSTANT)
    return best


def _end_of_row(spec: ScheduleSpec, day: date, step: timedelta) -> date:
    """The last of the days next to ``day`` that times may move across, ``day`` if there are none.

    ``step`` is one day, forwards or backwards; at most 14 days are looked at.
    """
    for _ in range(MOVE_DAYS_MAX):
        if not is_crossed(spec.exclusions, day + step):
            return day
        day += step
    return day


def _first_on_day(spec: ScheduleSpec, raw: datetime, day: date, after: datetime) -> datetime | None:
    """The first time later than ``after`` that the times of one source day fire at.

    ``raw`` is the first time of ``day`` before exclusions.
    """
    target = target_day(spec.exclusions, day)
    if target is None or target < _local_date(spec, after):
        return None
    clock = wall_clock(spec.timezone)
    if target == day:
        found: datetime | None = raw if raw > after else _next_raw(spec, after)
        while found is not None and _local_date(spec, found) == day:
            wall = clock.local(found).replace(tzinfo=None, fold=0)
            if _partial_pattern(spec.exclusions, wall) is None:
                return found
            found = _next_raw(spec, found)
        return None
    current: datetime | None = raw
    if target == _local_date(spec, after):
        time_of_day = clock.local(after).replace(tzinfo=None, fold=0).time()
        start = clock.instant(datetime.combine(day, time_of_day)) - _INSTANT
        current = _next_raw(spec, start) if start > raw else raw
    while current is not None and _local_date(spec, current) == day:
        wall = clock.local(current).replace(tzinfo=None, fold=0)
        moved = clock.instant(datetime.combine(target, wall.time()))
        if moved > after and _partial_pattern(spec.exclusions, wall) is None:
            return moved
        current = _next_raw(spec, current)
    return None


def _local_date(spec: ScheduleSpec, instant: datetime) -> date:
    return wall_clock(spec.timezone).local(instant).date()


def _day_start(spec: ScheduleSpec, day: date) -> datetime:
    return wall_clock(spec.timezone).instant(datetime.combine(day, time()))
