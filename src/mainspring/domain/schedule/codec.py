"""A schedule spec as JSON and back: the form in which it is stored and sent."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from mainspring.domain.cron import FoldRule, GapRule
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule.calendar import ExclusionCalendar, ExclusionRule
from mainspring.domain.schedule.policy import (
    MisfirePolicy,
    MisfireRule,
    OverlapPolicy,
    OverlapRule,
)
from mainspring.domain.schedule.spec import ScheduleSpec
from mainspring.domain.values import check_seconds, check_whole, parse_instant, shown

_T = TypeVar("_T")
_Rule = TypeVar("_Rule", bound=StrEnum)

_SECONDS_MAX = 4_000 * 86_400.0
_WHOLE_MAX = 2_000_000_000
_SUNDAY = 6
_TOP = "schedule"
_LIST_MAX = 5_001


def dump_spec(spec: ScheduleSpec) -> dict[str, Any]:
    """``spec`` as plain JSON values, durations in seconds, instants as ISO 8601 in UTC."""
    return {
        "cron": list(spec.crons),
        "every_seconds": _seconds(spec.every),
        "anchor": _text(spec.anchor),
        "at": _text(spec.at),
        "timezone": spec.timezone,
        "gap": spec.gap.value,
        "fold": spec.fold.value,
        "start_at": _text(spec.start_at),
        "end_at": _text(spec.end_at),
        "exclusions": [_dump_calendar(calendar) for calendar in spec.exclusions],
        "jitter_seconds": _seconds(spec.jitter),
        "max_runs": spec.max_runs,
        "misfire": {
            "rule": spec.misfire.rule.value,
            "window_seconds": _seconds(spec.misfire.window),
            "limit": spec.misfire.limit,
            "tolerance_seconds": _seconds(spec.misfire.tolerance),
        },
        "overlap": {"rule": spec.overlap.rule.value, "limit": spec.overlap.limit},
        "start_deadline_seconds": _seconds(spec.start_deadline),
        "pause_after_failures": spec.pause_after_failures,
    }


def load_spec(data: object) -> ScheduleSpec:
    """The spec that ``data`` describes; what is left out or null has its default.

    Raises `InvalidValue` that names the field for an unknown key, a wrong type or a bad value.
    """
    fields = _Fields(data, _TOP)
    crons = fields.take("cron", _texts)
    given: dict[str, Any] = {
        "crons": crons,
        "every": fields.take("every_seconds", _duration),
        "anchor": fields.take("anchor", _instant),
        "at": fields.take("at", _instant),
        "timezone": fields.take("timezone", _plain_text),
        "gap": fields.take("gap", _rule(GapRule)),
        "fold": fields.take("fold", _rule(FoldRule)),
        "start_at": fields.take("start_at", _instant),
        "end_at": fields.take("end_at", _instant),
        "exclusions": fields.take("exclusions", _calendars),
        "jitter": fields.take("jitter_seconds", _duration),
        "max_runs": fields.take("max_runs", _whole),
        "misfire": fields.take("misfire", _misfire),
        "overlap": fields.take("overlap", _overlap),
        "start_deadline": fields.take("start_deadline_seconds", _duration),
        "pause_after_failures": fields.take("pause_after_failures", _whole),
    }
    fields.refuse_others()
    return ScheduleSpec(**_given(given))


class _Fields:
    """The members of a JSON object, taken one by one."""

    def __init__(self, data: object, name: str) -> None:
        if not isinstance(data, Mapping):
            raise InvalidValue(f"{name} is {shown(data)}; give a JSON object.", field=name)
        self.name = name
        self.left = dict(data)

    def take(self, key: str, read: Callable[[object, str], _T]) -> _T | None:
        value = self.left.pop(key, None)
        field = key if self.name == _TOP else f"{self.name}.{key}"
        return None if value is None else read(value, field)

    def refuse_others(self) -> None:
        for key in self.left:
            raise InvalidValue(
                f"{self.name} has the unknown field {shown(key)}; remove it or correct its name.",
                field=self.name,
            )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _dump_calendar(calendar: ExclusionCalendar) -> dict[str, Any]:
    return {
        "name": calendar.name,
        "dates": [day.isoformat() for day in sorted(calendar.dates)],
        "patterns": list(calendar.patterns),
        "rule": calendar.rule.value,
        "weekend": sorted(calendar.weekend),
    }


def _seconds(duration: timedelta | None) -> int | float | None:
    if duration is None:
        return None
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def _list(value: object, field: str) -> list[object]:
    if isinstance(value, list) and len(value) <= _LIST_MAX:
        return value
    raise InvalidValue(f"{field} is {shown(value)}; give a list of values.", field=field)


def _plain_text(value: object, field: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidValue(f"{field} is {shown(value)}; give a text.", field=field)


def _texts(value: object, field: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(_plain_text(entry, field) for entry in _list(value, field))


def _whole(value: object, field: str) -> int:
    return check_whole(value, field, -_WHOLE_MAX, _WHOLE_MAX)


def _duration(value: object, field: str) -> timedelta:
    return timedelta(seconds=check_seconds(value, field, _SECONDS_MAX, zero=True))


def _instant(value: object, field: str) -> datetime:
    return parse_instant(_plain_text(value, field), field)


def _day(value: object, field: str) -> date:
    try:
        return date.fromisoformat(_plain_text(value, field))
    except ValueError as error:
        raise InvalidValue(
            f"{field} is {shown(value)}; give a date such as 2026-12-25.", field=field
        ) from error


def _rule(kind: type[_Rule]) -> Callable[[object, str], _Rule]:
    def read(value: object, field: str) -> _Rule:
        for member in kind:
            if member.value == value:
                return member
        known = ", ".join(member.value for member in kind)
        raise InvalidValue(f"{field} is {shown(value)}; use one of {known}.", field=field)

    return read


def _misfire(value: object, field: str) -> MisfirePolicy:
    fields = _Fields(value, field)
    given = {
        "rule": fields.take("rule", _rule(MisfireRule)),
        "window": fields.take("window_seconds", _duration),
        "limit": fields.take("limit", _whole),
        "tolerance": fields.take("tolerance_seconds", _duration),
    }
    fields.refuse_others()
    return MisfirePolicy(**_given(given))


def _overlap(value: object, field: str) -> OverlapPolicy:
    fields = _Fields(value, field)
    given = {
        "rule": fields.take("rule", _rule(OverlapRule)),
        "limit": fields.take("limit", _whole),
    }
    fields.refuse_others()
    return OverlapPolicy(**_given(given))


def _calendars(value: object, field: str) -> tuple[ExclusionCalendar, ...]:
    return tuple(_calendar(entry, field) for entry in _list(value, field))


def _calendar(value: object, field: str) -> ExclusionCalendar:
    fields = _Fields(value, field)
    given = {
        "name": fields.take("name", _plain_text) or "",
        "dates": fields.take("dates", _days),
        "patterns": fields.take("patterns", _texts),
        "rule": fields.take("rule", _rule(ExclusionRule)),
        "weekend": fields.take("weekend", _weekdays),
    }
    fields.refuse_others()
    return ExclusionCalendar(**_given(given))


def _days(value: object, field: str) -> frozenset[date]:
    return frozenset(_day(entry, field) for entry in _list(value, field))


def _weekdays(value: object, field: str) -> frozenset[int]:
    return frozenset(check_whole(entry, field, 0, _SUNDAY) for entry in _list(value, field))
