"""Matching on wall-clock time: cronsim decides which dates match, without any time zone.

cronsim reads the fields and decides each day. The search over days, hours and minutes is done on
its sorted sets, because asking it minute by minute costs ten times the budget of one answer.
"""

import calendar
from bisect import bisect_left, bisect_right
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from cronsim.cronsim import CronSim, Field

from mainspring.domain.cron.grammar import CronFields, DayOffset, parse_fields, refuse
from mainspring.domain.values import shown

# The rarest satisfiable date, 29 February on a given weekday, comes back within 40 years.
SEARCH_YEARS = 50
LAST_YEAR = 9998

_ANY_DATE = datetime.combine(date(2000, 1, 1), time())
_FEBRUARY = 2
_DAYS_OF_MONTH = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SATURDAY = 5
_SUNDAY = 6
_TO_NEXT_MINUTE = tuple(timedelta(seconds=60 - second) for second in range(60))


def day_of_offset(offset: DayOffset, length: int, first_weekday: int) -> int | None:
    """The day that ``offset`` names in a month of ``length`` days, None if the month lacks it.

    ``first_weekday`` is the weekday of the first day, 0 for Monday.
    """
    day = length - offset.number if offset.from_end else offset.number
    if not 1 <= day <= length:
        return None
    if not offset.weekday:
        return day
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


class WallMatcher(CronSim):
    """Finds the wall-clock minutes that match an expression. Knows nothing of time zones."""

    def __init__(self, fields: CronFields) -> None:
        # The base class judges impossible days by the plain ones alone, so it is given a harmless
        # day first and the real ones afterwards; `satisfiable` is our own judgement.
        super().__init__(
            f"{fields.minute} {fields.hour} 1 {fields.month} {fields.weekday}", _ANY_DATE
        )
        self.days = (
            {day for day in Field.DAY.parse(fields.days) if isinstance(day, int)}
            if (fields.days)
            else set()
        )
        self.day_and = fields.both_days
        self.fields = fields
        self._minutes = sorted(self.minutes)
        self._hours = sorted(self.hours)
        self._months = sorted(self.months)
        self._first_time = time(self._hours[0], self._minutes[0])
        self._days_by_month: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def match_dom(self, d: date) -> bool:
        """True if the day of month matches, the days counted inside the month included."""
        if super().match_dom(d):
            return True
        if not self.fields.day_offsets:
            return False
        first_weekday, length = calendar.monthrange(d.year, d.month)
        return any(
            day_of_offset(offset, length, first_weekday) == d.day
            for offset in self.fields.day_offsets
        )

    def days_in(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days of one month, ascending."""
        if month not in self.months:
            return ()
        length = 29 if month == _FEBRUARY and calendar.isleap(year) else _DAYS_OF_MONTH[month]
        key = (month, length, date(year, month, 1).weekday())
        days = self._days_by_month.get(key)
        if days is None:
            days = tuple(
                day for day in range(1, length + 1) if self.match_day(date(year, month, day))
            )
            self._days_by_month[key] = days
        return days

    def matches(self, wall: datetime) -> bool:
        """True if the minute of ``wall`` matches."""
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.day in self.days_in(wall.year, wall.month)
        )

    def satisfiable(self) -> bool:
        """True if any date can ever match.

        The days of a month depend only on its length and its first weekday, and 28 years hold
        every such month (the span has no century without a leap day).
        """
        return any(
            self.days_in(year, month) for year in range(2000, 2028) for month in self._months
        )

    def next_wall(self, after: datetime) -> datetime | None:
        """The first matching minute strictly later than ``after``, None within 50 years.

        ``after`` is naive and in whole seconds.
        """
        start = after + _TO_NEXT_MINUTE[after.second]
        year, month = start.year, start.month
        days = self.days_in(year, month)
        at = bisect_left(days, start.day)
        if at < len(days) and days[at] == start.day:
            if (found := self._later_today(start)) is not None:
                return found
            at += 1
        last_year = min(start.year + SEARCH_YEARS, LAST_YEAR)
        while at >= len(days):
            month_at = bisect_right(self._months, month)
            if month_at == len(self._months):
                month_at = 0
                year += 1
                if year > last_year:
                    return None
            month = self._months[month_at]
            days = self.days_in(year, month)
            at = 0
        return datetime.combine(date(year, month, days[at]), self._first_time)

    def _later_today(self, start: datetime) -> datetime | None:
        """The first matching minute on the day of ``start``, at or after it."""
        if start.hour in self.hours:
            at = bisect_left(self._minutes, start.minute)
            if at < len(self._minutes):
                return datetime.combine(start, time(start.hour, self._minutes[at]))
        at = bisect_right(self._hours, start.hour)
        if at == len(self._hours):
            return None
        return datetime.combine(start, time(self._hours[at], self._minutes[0]))


@lru_cache(maxsize=16_384)
def _matcher_of(fields: CronFields) -> WallMatcher:
    return WallMatcher(fields)


@lru_cache(maxsize=16_384)
def matcher_for(text: str) -> WallMatcher:
    """The matcher of a cron text, remembered; raises `InvalidCron` if it can never match."""
    fields = parse_fields(text)
    matcher = _matcher_of(fields)
    if not matcher.satisfiable():
        raise refuse(
            f"The cron expression {shown(text)} never fires, because no month has such a day;"
            " choose a day that exists, or 'L' for the last day of the month."
        )
    return matcher
