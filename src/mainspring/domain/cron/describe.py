"""A human sentence for an expression that is already valid.

cron-descriptor words the time of day and ordinary day fields. It has no words for the rule that
both day fields must match, and loses parts of lists with L, W or #, so those are worded here.
"""

import re
from functools import lru_cache

from cron_descriptor import CasingTypeEnum, Options, get_description

from mainspring.domain.cron.grammar import CronFields

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NTH = ("first", "second", "third", "fourth", "fifth")
_SPECIAL = re.compile(r"[LW#]")
_TERM = re.compile(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?")


@lru_cache(maxsize=4096)
def describe_fields(fields: CronFields) -> str:
    """One English sentence without a full stop, in 24-hour time."""
    minute, hour, day, month, weekday = (_star_alone(text) for text in fields.normalized.split(" "))
    if "*" in (day, weekday) and not _SPECIAL.search(day + weekday):
        return _by_library(f"{minute} {hour} {day} {month} {weekday}")
    parts = [_by_library(f"{minute} {hour} * * *")]
    if day == "*":
        parts.append(f"on {_join([_weekday_words(term) for term in weekday.split(',')])}")
    elif weekday == "*":
        parts.append(f"on {_join([_day_words(term) for term in day.split(',')])}")
    else:
        days = _join([_day_words(term) for term in day.split(",")])
        weekdays = _join([_weekday_words(term) for term in weekday.split(",")])
        parts.append(
            f"on {days}, but only if it is {weekdays}"
            if fields.both_days
            else f"on {days}, and also on {weekdays}"
        )
    if month != "*":
        parts.append(f"in {_join([_month_words(term) for term in month.split(',')])}")
    return ", ".join(parts)


def _star_alone(text: str) -> str:
    """A list that holds ``*`` means every value."""
    return "*" if "*" in text.split(",") else text


def _by_library(expression: str) -> str:
    options = Options()
    options.casing_type = CasingTypeEnum.Sentence
    options.use_24hour_time_format = True
    options.day_of_week_start_index_zero = True
    return get_description(expression, options)


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _day_words(term: str) -> str:
    if term == "L":
        return "the last day of the month"
    if term == "LW":
        return "the last weekday of the month"
    if term.startswith("L-"):
        count = term[2:].removesuffix("W")
        days = "day" if count == "1" else "days"
        words = f"{count} {days} before the last day of the month"
        return f"the weekday nearest {words}" if term.endswith("W") else words
    if term.endswith("W"):
        return f"the weekday nearest day {term[:-1]} of the month"
    return _range_words(term, "day", str)


def _weekday_words(term: str) -> str:
    if term.endswith("L"):
        return f"the last {_WEEKDAYS[int(term[:-1])]} of the month"
    day, sign, nth = term.partition("#")
    if sign:
        return f"the {_NTH[int(nth) - 1]} {_WEEKDAYS[int(day)]} of the month"
    return _range_words(term, "", lambda number: _WEEKDAYS[number % 7])


def _month_words(term: str) -> str:
    return _range_words(term, "", lambda number: _MONTHS[number - 1])


def _range_words(term: str, noun: str, name: "Naming") -> str:
    match = _TERM.fullmatch(term)
    assert match is not None, term
    first, last, step = match.groups()
    prefix = f"{noun} " if noun else ""
    if first == "*":
        return f"every {_ordinal(int(step))} {noun or 'one'}" if step else f"every {noun or 'one'}"
    words = f"{prefix}{name(int(first))}"
    if last:
        words += f" to {name(int(last))}"
    if step:
        words = f"every {_ordinal(int(step))} {noun or 'one'} from {words}"
    return words
