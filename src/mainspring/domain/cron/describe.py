"""A human sentence for an expression that is already valid.

cron-descriptor words the time of day and ordinary day fields. It has no words for the rule that
both day fields must match, and loses parts of lists with L, W or #, so those are worded here.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from cron_descriptor import (  # type: ignore[import-untyped]  # it ships no types
    CasingTypeEnum,
    Options,
    get_description,
)

from mainspring.domain.cron.grammar import HOUR, MINUTE, CronFields, FieldRule

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
_LAST_DAYS = {"L": "the last day of the month", "LW": "the last weekday of the month"}
_SPECIAL = re.compile(r"[LW#]")


@lru_cache(maxsize=4096)
def describe_fields(fields: CronFields) -> str:
    """One English sentence without a full stop, in 24-hour time."""
    minute, hour, day, month, weekday = (_star_alone(text) for text in fields.normalized.split(" "))
    minute, hour = _values_of(minute, MINUTE), _values_of(hour, HOUR)
    special = any(map(_is_special, (day, month, weekday))) or "/" in weekday
    if "*" in (day, weekday) and not special:
        return _by_library(f"{minute} {hour} {day} {month} {weekday}")
    parts = [_by_library(f"{minute} {hour} * * *")]
    if day == "*":
        parts.append(f"on {_weekday_words(weekday)}")
    elif weekday == "*":
        parts.append(f"on {_day_words(day)}")
    elif fields.both_days:
        parts.append(f"on {_day_words(day)}, but only if it is {_weekday_words(weekday)}")
    else:
        parts.append(f"on {_day_words(day)}, and also on {_weekday_words(weekday)}")
    if month != "*":
        parts.append(f"in {_month_words(month)}")
    return ", ".join(parts)


def _star_alone(text: str) -> str:
    """A list that holds ``*`` means every value."""
    return "*" if "*" in text.split(",") else text


def _is_special(text: str) -> bool:
    """True for what the library words wrongly or not at all: L, W, # and steps inside lists."""
    return bool(_SPECIAL.search(text)) or ("/" in text and "," in text)


def _values_of(text: str, rule: FieldRule) -> str:
    """A list with ranges or steps as plain values, because the library has no words for it."""
    if "," not in text or text.replace(",", "").isdigit():
        return text
    values: set[int] = set()
    for term in text.split(","):
        first, last, step = _parts(term)
        start = rule.low if first == "*" else int(first)
        end = int(last) if last else rule.high if step or first == "*" else start
        values.update(range(start, end + 1, int(step or 1)))
    return ",".join(map(str, sorted(values)))


def _by_library(expression: str) -> str:
    options = Options()
    options.casing_type = CasingTypeEnum.Sentence
    options.use_24hour_time_format = True
    options.day_of_week_start_index_zero = True
    return str(get_description(expression, options))


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _day_words(text: str) -> str:
    return _join([_day_term_words(term) for term in text.split(",")])


def _day_term_words(term: str) -> str:
    if term in _LAST_DAYS:
        return _LAST_DAYS[term]
    if term.startswith("L-"):
        count = term[2:].removesuffix("W")
        words = f"{count} day{'s' * (count != '1')} before the last day of the month"
        return f"the weekday nearest to {words}" if term.endswith("W") else words
    if term.endswith("W"):
        return f"the weekday nearest to day {term[:-1]} of the month"
    first, last, step = _parts(term)
    if first == "*" and not step:
        return "every day"
    if not last and not step:
        return f"day {first}"
    words = f"days {first.replace('*', '1')} to {last or '31'}"
    return f"{words} in steps of {step}" if step else words


def _weekday_words(text: str) -> str:
    words: list[str] = []
    for term in text.split(","):
        day, sign, nth = term.partition("#")
        if sign:
            words.append(f"the {_NTH[int(nth) - 1]} {_WEEKDAYS[int(day)]} of the month")
        elif term.endswith("L"):
            words.append(f"the last {_WEEKDAYS[int(term[:-1])]} of the month")
        else:
            words += _names(term, 0, 6, lambda number: _WEEKDAYS[number % 7])
    return _join(words)


def _month_words(text: str) -> str:
    words: list[str] = []
    for term in text.split(","):
        words += _names(term, 1, 12, lambda number: _MONTHS[number - 1])
    return _join(words)


def _names(term: str, low: int, high: int, name: Callable[[int], str]) -> list[str]:
    """The words for a value or a range; a range with a step is written out."""
    first, last, step = _parts(term)
    if step or first == "*":
        start = low if first == "*" else int(first)
        return [name(number) for number in range(start, int(last or high) + 1, int(step or 1))]
    return [f"{name(int(first))} to {name(int(last))}" if last else name(int(first))]


def _parts(term: str) -> tuple[str, str, str]:
    """First value or ``*``, last value or nothing, step or nothing."""
    head, _, step = term.partition("/")
    first, _, last = head.partition("-")
    return first, last, step
