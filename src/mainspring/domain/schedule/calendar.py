"""Exclusion calendars: days and patterns at which a schedule does not fire, or fires elsewhere."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from mainspring.domain.cron.grammar import HOUR, MINUTE
from mainspring.domain.cron.match import WallMatcher, matcher_for
from mainspring.domain.errors import InvalidValue

DATES_MAX = 5_000
PATTERNS_MAX = 20
# A business day further away than this is taken as none: the nominal time is left out.
MOVE_DAYS_MAX = 14

_DAY = timedelta(days=1)


class ExclusionRule(StrEnum):
    """What happens to a nominal time on an excluded day."""

    SKIP = "skip"
    PREVIOUS = "previous"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionCalendar:
    """Days and patterns that are taken out of a schedule, read in the schedule's zone.

    ``dates`` are whole days; ``patterns`` are cron expressions, and every minute they match is
    excluded (``* * 25 12 *`` is each 25 December). ``rule``: skip the time, or keep its time of
    day and move it to the ``previous`` or ``next`` business day: one that no calendar excludes
    and that is not in ``weekend`` (0 is Monday; default Saturday and Sunday), at most 14 days
    away. Moving needs patterns of whole days, which begin with ``* *``.
    """

    name: str
    dates: frozenset[date] = frozenset()
    patterns: tuple[str, ...] = ()
    rule: ExclusionRule = ExclusionRule.SKIP
    weekend: frozenset[int] = frozenset({5, 6})

    def __post_init__(self) -> None:
        if len(self.dates) > DATES_MAX or len(self.patterns) > PATTERNS_MAX:
            raise InvalidValue(
                f"The calendar {self.name!r} has {len(self.dates)} dates and {len(self.patterns)}"
                f" patterns; at most {DATES_MAX} and {PATTERNS_MAX} are accepted.",
                field="exclusions",
            )
        if not self.weekend < frozenset(range(7)):
            raise InvalidValue(
                f"The calendar {self.name!r} has the weekend {sorted(self.weekend)}; give weekdays"
                " from 0 (Monday) to 6 (Sunday), not all of them.",
                field="exclusions",
            )
        partial = [text for text in self.patterns if not is_whole_day(matcher_for(text))]
        if partial and self.rule is not ExclusionRule.SKIP:
            raise InvalidValue(
                f"The calendar {self.name!r} moves times to another day, so its pattern"
                f" {partial[0]!r} has to cover whole days; begin it with '* *' or use 'skip'.",
                field="exclusions",
            )

    def excludes_day(self, day: date) -> bool:
        """True if the whole of ``day`` is excluded."""
        if day in self.dates:
            return True
        noon = datetime.combine(day, time(12))
        return any(
            is_whole_day(matcher) and matcher.matches(noon)
            for matcher in map(matcher_for, self.patterns)
        )

    def pattern_at(self, wall: datetime) -> WallMatcher | None:
        """The pattern that excludes the minute of the local time ``wall``, None if none does."""
        for matcher in map(matcher_for, self.patterns):
            if matcher.matches(wall):
                return matcher
        return None


def is_whole_day(matcher: WallMatcher) -> bool:
    """True if a pattern matches every minute of the days it matches."""
    return covers_hour(matcher) and len(matcher.hours) == HOUR.size


def covers_hour(matcher: WallMatcher) -> bool:
    """True if a pattern matches every minute of the hours it matches."""
    return len(matcher.minutes) == MINUTE.size


def day_calendar(calendars: tuple[ExclusionCalendar, ...], day: date) -> ExclusionCalendar | None:
    """The first calendar that excludes the whole of ``day``; its rule decides."""
    for calendar in calendars:
        if calendar.excludes_day(day):
            return calendar
    return None


def target_day(calendars: tuple[ExclusionCalendar, ...], day: date) -> date | None:
    """The day on which the nominal times of ``day`` fire: itself, a business day, or none."""
    calendar = day_calendar(calendars, day)
    if calendar is None:
        return day
    if calendar.rule is ExclusionRule.SKIP:
        return None
    step = _DAY if calendar.rule is ExclusionRule.NEXT else -_DAY
    for distance in range(1, MOVE_DAYS_MAX + 1):
        other = day + distance * step
        if other.weekday() not in calendar.weekend and day_calendar(calendars, other) is None:
            return other
    return None


def is_crossed(calendars: tuple[ExclusionCalendar, ...], day: date) -> bool:
    """True if a moving time may pass over ``day``, because it is excluded or a weekend."""
    weekend = any(day.weekday() in calendar.weekend for calendar in calendars)
    return weekend or day_calendar(calendars, day) is not None
