"""An independent reading of cron expressions, for comparison: no shared code, another algorithm.

It never computes a next time. It looks at every date, or every minute, and asks each term of each
field whether it holds, straight from the text.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_WEEK = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_YEAR = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@cache
def month_days(year: int, month: int) -> list[date]:
    day = date(year, month, 1)
    days = []
    while day.month == month:
        days.append(day)
        if day == date.max:
            break
        day += _DAY
    return days


def number(text: str) -> int:
    upper = text.upper()
    if upper in _WEEK:
        return _WEEK.index(upper)
    if upper in _YEAR:
        return _YEAR.index(upper) + 1
    return int(text)


@cache
def plain_values(term: str, low: int, high: int) -> frozenset[int]:
    """The values of a term without L, W or #, walked one after the other, around if need be."""
    body, _, step_text = term.partition("/")
    step = int(step_text) if step_text else 1
    if body in ("*", "?"):
        first, last = low, high
    elif "-" in body:
        first, last = (number(part) for part in body.split("-"))
    else:
        first = number(body)
        last = high if step_text else first
    if high == 6 and first == 7:
        # Sunday has two numbers; what starts with the second one starts the week.
        first, last = 0, last % 7
    walked = []
    value = first
    while True:
        walked.append(value)
        if value == last:
            break
        value += 1
        if high == 6 and value > last and first > last and value == 7:
            value = 0
        assert value <= max(high, last, 7)
    return frozenset(v % 7 if high == 6 else v for v in walked[::step])


@cache
def nearest_weekday(day: date) -> date:
    candidates = [d for d in month_days(day.year, day.month) if d.isoweekday() <= 5]
    return min(candidates, key=lambda d: abs((d - day).days))


@cache
def dom_term(term: str, day: date) -> bool:
    days = month_days(day.year, day.month)
    text = term.upper()
    if text == "L":
        return day == days[-1]
    if text == "LW":
        return day == nearest_weekday(days[-1])
    if text.startswith("L-"):
        back = int(text[2:].rstrip("W"))
        if back >= len(days):
            return False
        target = days[-1 - back]
        return day == (nearest_weekday(target) if text.endswith("W") else target)
    if text.endswith("W"):
        wanted = int(text[:-1])
        return wanted <= len(days) and day == nearest_weekday(days[wanted - 1])
    return day.day in plain_values(text, 1, 31)


@cache
def dow_term(term: str, day: date) -> bool:
    text = term.upper()
    same = [d for d in month_days(day.year, day.month) if d.weekday() == day.weekday()]
    if "#" in text:
        name, nth = text.split("#")
        return number(name) % 7 == day.isoweekday() % 7 and same.index(day) + 1 == int(nth)
    if text.endswith("L"):
        return number(text[:-1]) % 7 == day.isoweekday() % 7 and same[-1] == day
    return day.isoweekday() % 7 in plain_values(text, 0, 6)


class Oracle:
    def __init__(self, expression: str) -> None:
        text = _SHORTHANDS.get(expression.strip().lower(), expression)
        self.minute, self.hour, self.dom, self.month, self.dow = text.split()
        self.elapsed = self.hour[0] in "*?"
        self.both = self.dom[0] in "*?" or self.dow[0] in "*?"
        self.minutes = self._values(self.minute, 0, 59)
        self.hours = self._values(self.hour, 0, 23)
        self.months = self._values(self.month.upper(), 1, 12)

    @staticmethod
    def _values(text: str, low: int, high: int) -> frozenset[int]:
        return frozenset().union(*(plain_values(term, low, high) for term in text.split(",")))

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        dom = any(dom_term(term, day) for term in self.dom.split(","))
        if self.both and not dom:
            return False
        if dom and not self.both:
            return True
        return any(dow_term(term, day) for term in self.dow.split(","))

    def at(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.on(wall.date())

    def walls(self, after: datetime, last_day: date) -> Iterator[datetime]:
        """Matching naive minutes later than ``after``, found day by day and minute by minute."""
        day = after.date()
        while day <= last_day:
            if self.on(day):
                wall = datetime.combine(day, time())
                while wall.date() == day:
                    if wall.hour not in self.hours:
                        wall += 60 * _MINUTE
                        continue
                    if wall.minute in self.minutes and wall > after:
                        yield wall
                    wall += _MINUTE
            day += _DAY

    def fires(self, minutes: list[tuple[datetime, datetime]], start: datetime) -> list[datetime]:
        """Every fire from ``start`` on by the published rules, looking at each UTC minute."""
        found = []
        seen: set[datetime] = set()
        before = minutes[0][1]
        for instant, wall in minutes:
            if self.elapsed:
                fire = self.at(wall)
            else:
                fire = wall not in seen and self.at(wall)
                skipped = before + _MINUTE
                while skipped < wall:
                    fire = fire or self.at(skipped)
                    skipped += _MINUTE
            seen.add(wall)
            before = wall
            if fire and instant >= start:
                found.append(instant)
        return found


def local_minutes(
    zone: ZoneInfo, start: datetime, end: datetime
) -> list[tuple[datetime, datetime]]:
    """Every UTC minute from a day before ``start`` to ``end``, with its wall-clock time."""
    minutes = []
    instant = start - _DAY
    while instant <= end:
        minutes.append((instant, instant.astimezone(zone).replace(tzinfo=None, fold=0)))
        instant += _MINUTE
    return minutes
