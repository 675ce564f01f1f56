"""The five-field grammar: validates a text and rewrites it into the form that the matcher reads.

Every refusal names the field, the value and the way out. What passes here is accepted by cronsim
with the same meaning, so the rules of the grammar are decided in this module alone.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mainspring.domain.errors import InvalidCron
from mainspring.domain.values import shown

MAX_LENGTH = 256
CRON_FIELD = "cron_expression"

ALIASES: Mapping[str, str] = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_FIELD_NAMES = ("minute", "hour", "day of month", "month", "day of week")
_SATURDAY = 6
_SECOND_SUNDAY = 7
_BACK_MAX = 30
_NTH_MAX = 5
_WORD = re.compile(r"[0-9]+|[A-Z]+")
_LAST_MINUS = re.compile(r"L-([0-9]+)(W?)")
_NEAREST = re.compile(r"([0-9]+)W")
_LAST_WEEKDAY = re.compile(r"([0-9]+|[A-Z]{3})L")


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One of the five fields: its name in messages, its bounds and its value names."""

    name: str
    low: int
    high: int
    size: int
    names: Mapping[str, int]


MINUTE = FieldRule("minute", 0, 59, 60, {})
HOUR = FieldRule("hour", 0, 23, 24, {})
DAY = FieldRule("day of month", 1, 31, 31, {})
MONTH = FieldRule("month", 1, 12, 12, {name: n for n, name in enumerate(MONTH_NAMES, 1)})
WEEKDAY = FieldRule("day of week", 0, 7, 7, {name: n for n, name in enumerate(WEEKDAY_NAMES)})


@dataclass(frozen=True, slots=True)
class DayOffset:
    """A day that is counted inside its month.

    ``from_end`` counts back from the last day (0 is the last day), otherwise ``number`` is the
    day itself. ``weekday`` moves it to the nearest Monday to Friday of the same month.
    """

    number: int
    from_end: bool
    weekday: bool


@dataclass(frozen=True, slots=True)
class CronFields:
    """A valid expression, taken apart.

    ``normalized`` is the canonical text: numbers for names, single spaces, aliases written out.
    ``days`` holds the plain days of the month in cronsim's syntax (empty when there are none)
    and ``day_offsets`` the days it has no syntax for. ``both_days`` is true when a date must
    match the day of month *and* the day of week, false when either is enough.
    """

    normalized: str
    minute: str
    hour: str
    days: str
    day_offsets: tuple[DayOffset, ...]
    month: str
    weekday: str
    both_days: bool

    @property
    def follows_elapsed_time(self) -> bool:
        """True when the hour field starts with ``*``: every real hour counts, repeated ones too."""
        return self.hour.startswith("*")

    @property
    def restricts_both_days(self) -> bool:
        """True when day of month and day of week both name days, so that either is enough."""
        return not self.both_days


def refuse(message: str) -> InvalidCron:
    """Build the refusal of a cron expression with ``message``."""
    return InvalidCron(message, field=CRON_FIELD)


def parse_fields(text: str) -> CronFields:
    """Validate ``text`` and take it apart; raises `InvalidCron` with the reason and a hint."""
    minute, hour, day, month, weekday = _split(_expand(_clean(text)))
    minute = _parse_list(MINUTE, minute, _plain_term)
    hour = _parse_list(HOUR, hour, _plain_term)
    day = _parse_list(DAY, day, _day_term)
    month = _parse_list(MONTH, month, _plain_term)
    weekday = _parse_list(WEEKDAY, weekday, _weekday_term)
    normalized = f"{minute} {hour} {day} {month} {weekday}"
    if len(normalized) > MAX_LENGTH:
        raise refuse(
            f"The cron expression {shown(text)} has {len(normalized)} characters once its ranges"
            f" are written out; at most {MAX_LENGTH} are accepted, so use several expressions."
        )
    terms = day.split(",")
    return CronFields(
        normalized=normalized,
        minute=minute,
        hour=hour,
        days=",".join(term for term in terms if _day_offset(term) is None),
        day_offsets=tuple(offset for term in terms if (offset := _day_offset(term))),
        month=month,
        weekday=weekday,
        both_days=day.startswith("*") or weekday.startswith("*"),
    )


def _clean(text: str) -> str:
    if not isinstance(text, str):
        raise refuse(f"A cron expression is a text of five fields, not {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise refuse(
            f"The cron expression {shown(text)} has {len(text)} characters; at most {MAX_LENGTH}"
            " are accepted, so use ranges and steps or several expressions."
        )
    for character in text:
        if character != "\t" and not " " <= character <= "~":
            raise refuse(
                f"The cron expression {shown(text)} contains the character {character!a};"
                " use plain ASCII letters, digits and signs, separated by spaces."
            )
    return text.strip(" \t").upper()


def _expand(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text in ALIASES:
        return ALIASES[text]
    if text == "@REBOOT":
        raise refuse(
            "The cron expression '@reboot' names no time; submit a task when the process starts"
            " instead."
        )
    if text.startswith("@EVERY"):
        raise refuse(
            f"The cron expression {shown(text.lower())} is an interval; make an interval schedule"
            " instead, such as every 90 seconds."
        )
    known = ", ".join(alias.lower() for alias in ALIASES)
    raise refuse(f"The cron alias {shown(text.lower())} is unknown; use one of {known}.")


def _split(text: str) -> list[str]:
    fields = text.split()
    if len(fields) == len(_FIELD_NAMES):
        return fields
    if not fields:
        raise refuse("The cron expression is empty; write five fields, such as '0 9 * * MON-FRI'.")
    order = f"{', '.join(_FIELD_NAMES[:-1])} and {_FIELD_NAMES[-1]}"
    hint = f"write the five fields {order}"
    if len(fields) in (6, 7):
        hint = f"seconds and years have no field here, so keep only {order}"
    if fields[0].startswith("/"):
        hint += f", and a step needs a start: write '*{fields[0]}' for '{fields[0]}'"
    raise refuse(
        f"The cron expression {shown(text)} has {len(fields)} field{'s' * (len(fields) > 1)};"
        f" {hint}."
    )


def _parse_list(rule: FieldRule, text: str, parse: Callable[[FieldRule, str], str]) -> str:
    if text == "?":
        return "*"
    terms: dict[str, None] = {}
    for term in text.split(","):
        if not term:
            raise refuse(
                f"The {rule.name} field {shown(text)} has an empty place in its list; write values"
                " between all commas."
            )
        # A wrapped range comes back as several values; a value listed twice means nothing more.
        terms.update(dict.fromkeys(parse(rule, term).split(",")))
    return ",".join(terms)


def _plain_term(rule: FieldRule, term: str) -> str:
    """``*``, a value or a range, each with an optional step, in canonical form."""
    head, slash, step_text = term.partition("/")
    if slash and not head:
        raise refuse(
            f"The {rule.name} field has {shown(term)}, a step without a start; write '*{term}'."
        )
    step = _step(rule, term, step_text) if slash else 1
    if head == "*":
        return "*" if step == 1 else f"*/{step}"
    if head == "?":
        raise refuse(
            f"The {rule.name} field has {shown(term)}, but '?' stands for the whole field and takes"
            " nothing beside it; write '*' instead."
        )
    first_text, dash, last_text = head.partition("-")
    first = _value(rule, term, first_text)
    if not dash:
        first = _sunday_is_zero(rule, first)
        return f"{first}/{step}" if slash and rule is not WEEKDAY else _stepped(first, slash, step)
    last = _value(rule, term, last_text)
    return _range(rule, term, first, last, step)


def _stepped(first: int, slash: str, step: int) -> str:
    """A weekday with a step: the week runs from Sunday (0) to Saturday (6)."""
    if not slash or first + step > _SATURDAY:
        return str(first)
    return f"{first}-{_SATURDAY}" if step == 1 else f"{first}-{_SATURDAY}/{step}"


def _range(rule: FieldRule, term: str, first: int, last: int, step: int) -> str:
    suffix = "" if step == 1 else f"/{step}"
    if rule is WEEKDAY and first == _SECOND_SUNDAY:
        first = 0
        last %= 7
    if first == last:
        return str(_sunday_is_zero(rule, first))
    if first < last:
        return f"{first}-{last}{suffix}"
    if rule is WEEKDAY:
        around = [day % 7 for day in range(first, last + 8)][::step]
        return ",".join(map(str, around))
    raise refuse(
        f"The {rule.name} field has the range {shown(term)}, which runs backwards; write"
        f" '{first}-{rule.high},{rule.low}-{last}' to wrap around."
    )


def _sunday_is_zero(rule: FieldRule, value: int) -> int:
    return 0 if rule is WEEKDAY and value == _SECOND_SUNDAY else value


def _step(rule: FieldRule, term: str, text: str) -> int:
    if not text.isdigit():
        raise refuse(
            f"The {rule.name} field has {shown(term)}, whose step {shown(text)} is no number;"
            " write a whole number after '/', such as '*/5'."
        )
    step = int(text)
    if 1 <= step <= rule.size:
        return step
    raise refuse(
        f"The {rule.name} field has {shown(term)}, whose step is not within 1 to {rule.size}; a"
        " step counts inside its own field, so use a coarser field or an interval schedule."
    )


def _value(rule: FieldRule, term: str, text: str) -> int:
    if text.isdigit():
        number = int(text)
        if rule.low <= number <= rule.high:
            return number
        raise refuse(
            f"The {rule.name} field has {shown(text)}, which is not within {rule.low} to"
            f" {rule.high}."
        )
    if text in rule.names:
        return rule.names[text]
    raise refuse(f"The {rule.name} field has {shown(term)}, which {_why_no_value(rule, text)}.")


def _why_no_value(rule: FieldRule, text: str) -> str:
    values = f"write numbers from {rule.low} to {rule.high}"
    if rule.names:
        names = tuple(rule.names)
        values += f" or the names {names[0]} to {names[-1]}"
        if text[:3] in rule.names and text.isalpha():
            return f"is spelled out; write {text[:3]}"
    if not text:
        return f"lacks a value; {values}, with '-' only between two of them"
    if any(sign in text for sign in "LW#") and not text.isalpha():
        return f"uses L, W or # in a way this field does not have; {values}"
    if not _WORD.fullmatch(text):
        return f"is neither a value, a range nor a step; {values}"
    return f"is no {rule.name}; {values}"


def _day_term(rule: FieldRule, term: str) -> str:
    if term in ("L", "LW"):
        return term
    if term == "WL":
        raise refuse("The day of month field has 'WL'; write 'LW' for the last weekday.")
    if term == "W":
        raise refuse(
            "The day of month field has a bare 'W'; write the day before it, such as '15W', or 'LW'"
            " for the last weekday."
        )
    if match := _LAST_MINUS.fullmatch(term):
        back = int(match[1])
        if not 1 <= back <= _BACK_MAX:
            raise refuse(
                f"The day of month field has {shown(term)}; 'L-n' counts 1 to 30 days back from the"
                " last day, and 'L' is the last day."
            )
        return f"L-{back}{match[2]}"
    if match := _NEAREST.fullmatch(term):
        return f"{_value(rule, term, match[1])}W"
    if "L" in term or "W" in term:
        raise refuse(
            f"The day of month field has {shown(term)}; the forms with L and W are 'L', 'LW',"
            " '15W', 'L-3' and 'L-3W', without ranges or steps."
        )
    return _plain_term(rule, term)


def _weekday_term(rule: FieldRule, term: str) -> str:
    if term == "L":
        raise refuse(
            "The day of week field has a bare 'L'; write the day before it, such as '5L' or 'FRIL'"
            " for the last Friday of the month."
        )
    if match := _LAST_WEEKDAY.fullmatch(term):
        return f"{_sunday_is_zero(rule, _value(rule, term, match[1]))}L"
    day_text, sign, nth_text = term.partition("#")
    if not sign:
        return _plain_term(rule, term)
    if not nth_text.isdigit() or not 1 <= int(nth_text) <= _NTH_MAX:
        raise refuse(
            f"The day of week field has {shown(term)}; after '#' stands 1 to 5, as in 'MON#2' for"
            " the second Monday of the month."
        )
    return f"{_sunday_is_zero(rule, _value(rule, term, day_text))}#{int(nth_text)}"


def _day_offset(term: str) -> DayOffset | None:
    """The day of a canonical term that cronsim has no syntax for, else None."""
    if match := _LAST_MINUS.fullmatch(term):
        return DayOffset(int(match[1]), from_end=True, weekday=bool(match[2]))
    if match := _NEAREST.fullmatch(term):
        return DayOffset(int(match[1]), from_end=False, weekday=True)
    return None
