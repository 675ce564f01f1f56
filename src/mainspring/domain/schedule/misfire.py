"""Which due nominal times run, by the misfire policy."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.domain.schedule.plan import SkippedTimes, SkipReason
from mainspring.domain.schedule.policy import MisfireRule
from mainspring.domain.schedule.spec import ScheduleSpec
from mainspring.domain.schedule.timetable import (
    count_nominals,
    latest_nominals,
    next_nominal,
    nominal_times,
    previous_nominal,
)

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DueTimes:
    """The due nominal times: those to run, neighbours in the timetable and ascending, and the
    others. ``following`` is the first time that is not due yet.
    """

    run: list[datetime]
    skipped: list[SkippedTimes]
    following: datetime | None


def due_times(spec: ScheduleSpec, cursor: datetime, now: datetime) -> DueTimes:
    """What becomes of the nominal times from ``cursor``, which is one, to ``now``.

    While the oldest is within the tolerance nothing was missed, and all of them run.
    """
    if cursor < now - spec.misfire.tolerance:
        run, skipped = _missed_times(spec, cursor, now)
        return DueTimes(run, skipped, next_nominal(spec, now))
    times = [cursor]
    following = next_nominal(spec, cursor)
    while following is not None and following <= now:
        times.append(following)
        following = next_nominal(spec, following)
    return DueTimes(times, [], following)


def _missed_times(
    spec: ScheduleSpec, cursor: datetime, now: datetime
) -> tuple[list[datetime], list[SkippedTimes]]:
    """The times to run by the misfire policy, and the record of the others."""
    policy = spec.misfire
    skipped: list[SkippedTimes] = []
    first: datetime | None = cursor
    window_start = now - policy.window
    if cursor < window_start:
        skipped += _span(spec, cursor, window_start - _INSTANT, SkipReason.OUTSIDE_WINDOW)
        first = next_nominal(spec, window_start - _INSTANT)
    if first is None or first > now:
        return [], skipped
    if policy.rule is MisfireRule.RUN_ALL:
        times = latest_nominals(spec, first, now, policy.limit)
        reason = SkipReason.OVER_LIMIT
    elif policy.rule is MisfireRule.RUN_ONCE:
        times = latest_nominals(spec, first, now, 1)
        reason = SkipReason.COALESCED
    else:
        times = list(nominal_times(spec, max(first, now - policy.tolerance), now))
        reason = SkipReason.MISSED
    end = times[0] - _INSTANT if times else now
    return times, skipped + _span(spec, first, end, reason)


def _span(
    spec: ScheduleSpec, first: datetime, end: datetime, reason: SkipReason
) -> list[SkippedTimes]:
    """The record of the nominal times from ``first``, which is one, up to ``end``."""
    if first > end:
        return []
    last = previous_nominal(spec, end + _INSTANT)
    if last is None or last < first:
        return []
    counted = count_nominals(spec, first, last)
    return [
        SkippedTimes(
            first=first, last=last, count=counted.count, exact=counted.exact, reason=reason
        )
    ]
