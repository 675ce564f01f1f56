"""Preview: the next nominal times in the zone and in UTC, with warnings about surprises."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from mainspring.domain.cron import CronExpression, FoldRule, GapRule, wall_clock
from mainspring.domain.cron.zone import ClockChange
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule.policy import MisfireRule, OverlapRule
from mainspring.domain.schedule.spec import ScheduleSpec
from mainspring.domain.schedule.timetable import next_nominal

PREVIEW_MAX = 1_000
_CHANGES_SEEN = timedelta(days=370)
_RARE = timedelta(days=366)
_SECOND = timedelta(seconds=1)
_SHORTER_THAN = {29: {2}, 30: {2}, 31: {2, 4, 6, 9, 11}}


@dataclass(frozen=True, slots=True)
class PreviewTime:
    """One nominal time: in UTC, and as the zone's clock shows it."""

    utc: datetime
    local: datetime


@dataclass(frozen=True, slots=True)
class Preview:
    """What a schedule will do. ``normalized`` and ``description`` join several expressions."""

    expression: str
    normalized: str
    description: str
    timezone: str
    next: tuple[PreviewTime, ...]
    warnings: tuple[str, ...]


def preview(spec: ScheduleSpec, after: datetime, count: int = 10) -> Preview:
    """The next ``count`` (1 to 1,000) nominal times later than ``after``, with warnings.

    Fewer come when the schedule ends. Warned about: clock changes of the next year that move,
    merge or repeat a time, fields that combine in an unexpected way, days that months lack, steps
    that do not divide their field, rare times, and policies that work against each other.
    """
    if not 1 <= count <= PREVIEW_MAX:
        raise InvalidValue(
            f"The number of previewed times is {count}; choose 1 to {PREVIEW_MAX}.", field="count"
        )
    spec = spec.with_anchor(after)
    clock = wall_clock(spec.timezone)
    times: list[datetime] = []
    found = next_nominal(spec, after)
    while found is not None and len(times) < count:
        times.append(found)
        found = next_nominal(spec, found)
    return Preview(
        expression=_words(spec, [cron.text for cron in spec.expressions]),
        normalized=_words(spec, [cron.normalized for cron in spec.expressions]),
        description=_words(spec, [cron.describe() for cron in spec.expressions]),
        timezone=spec.timezone,
        next=tuple(PreviewTime(time, clock.local(time)) for time in times),
        warnings=tuple(dict.fromkeys(_warnings(spec, after, times))),
    )


def _words(spec: ScheduleSpec, of_crons: list[str]) -> str:
    if spec.every is not None:
        return f"every {spec.every.total_seconds():.0f} seconds"
    if spec.at is not None:
        return f"at {spec.at.isoformat()}"
    return "; ".join(of_crons)


def _warnings(spec: ScheduleSpec, after: datetime, times: list[datetime]) -> Iterator[str]:
    if not times:
        yield "The schedule has no time left."
    elif times[0] - after > _RARE:
        yield f"The next time is more than a year away: {times[0].isoformat()}."
    for cron in spec.expressions:
        yield from _field_warnings(cron)
    yield from _clock_warnings(spec, after)
    if spec.jitter and any(later - time <= spec.jitter for time, later in pairwise(times)):
        yield (
            f"The jitter of {spec.jitter} reaches the next time, so it is cut to stay before it."
        )
    if spec.misfire.rule is MisfireRule.RUN_ALL and spec.overlap.rule in (
        OverlapRule.SKIP,
        OverlapRule.CANCEL_PREVIOUS,
    ):
        yield (
            f"The misfire policy runs all missed times, but the overlap policy"
            f" '{spec.overlap.rule.value}' lets one of them run at a time; use 'buffer_all' or"
            " 'allow'."
        )


def _field_warnings(cron: CronExpression) -> Iterator[str]:
    minute, hour, day, _, weekday = cron.normalized.split(" ")
    if cron.matcher.fields.restricts_both_days:
        yield (
            f"In '{cron.text}' day of month and day of week are both set, so it fires when either"
            " matches."
        )
    elif "*" not in (day, weekday):
        yield (
            f"In '{cron.text}' one of day of month and day of week starts with '*', so it fires"
            " only when both match."
        )
    for name, text, size in (("minute", minute, 60), ("hour", hour, 24)):
        step = text.removeprefix("*/")
        if step.isdigit() and text != step and size % int(step):
            yield (
                f"The step {text} does not divide the {size} values of its field, so the last gap"
                f" before the {name} field starts again is shorter."
            )
    if weekday == "*" and day.isdigit() and int(day) in _SHORTER_THAN:
        lacking = _SHORTER_THAN[int(day)]
        if lacking & cron.matcher.months:
            yield (
                f"Some of the months of '{cron.text}' have no day {day}, and it does not fire in"
                " those; 'L' is the last day of any month."
            )


def _clock_warnings(spec: ScheduleSpec, after: datetime) -> Iterator[str]:
    expressions = spec.expressions
    if not expressions:
        return
    clock = wall_clock(spec.timezone)
    for change in clock.changes(after, after + _CHANGES_SEEN):
        for cron in expressions:
            if change.after > change.before:
                yield from _gap_warning(cron, change)
            else:
                yield from _fold_warning(cron, change)


def _gap_warning(cron: CronExpression, change: ClockChange) -> Iterator[str]:
    missing = cron.matcher.next_wall(change.wall_before - _SECOND)
    if missing is None or missing >= change.wall_after or cron.follows_elapsed_time:
        return
    what = (
        "is skipped then"
        if cron.gap is GapRule.SKIP
        else f"fires once at {change.wall_after:%H:%M} instead"
    )
    yield (
        f"The clock change of {change.wall_before:%Y-%m-%d} skips {missing:%H:%M} in"
        f" {cron.timezone}; '{cron.text}' {what}."
    )


def _fold_warning(cron: CronExpression, change: ClockChange) -> Iterator[str]:
    repeated = cron.matcher.next_wall(change.wall_after - _SECOND)
    if repeated is None or repeated >= change.wall_before:
        return
    both = cron.follows_elapsed_time if cron.fold is FoldRule.AUTO else cron.fold is FoldRule.BOTH
    # An expression of every hour that fires in both passes does what its reader expects.
    if both and cron.follows_elapsed_time:
        return
    what = "both times" if both else "the first time only"
    yield (
        f"The clock change of {change.wall_after:%Y-%m-%d} repeats {repeated:%H:%M} in"
        f" {cron.timezone}; '{cron.text}' fires {what}."
    )
