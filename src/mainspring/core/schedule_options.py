"""What a caller may choose about a schedule, checked field by field.

The same words are used in Python, on the command line and in an imported file. They become the
JSON form of a spec (`domain.schedule.load_spec`), which checks what they mean together.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, TypedDict

import msgspec

from mainspring.core.builtin_tasks import check_builtin
from mainspring.core.options import NO_OPTIONS, TaskOptions, checked_options
from mainspring.core.registry import TaskDefinition
from mainspring.core.submission import complete_options, encode_payload, keys_of
from mainspring.domain.errors import InvalidValue, MainspringError
from mainspring.domain.namespaces import plain_key
from mainspring.domain.placement import base_of, branch_of, labels_of
from mainspring.domain.retry import Backoff
from mainspring.domain.schedule import (
    ExclusionCalendar,
    MisfirePolicy,
    OverlapPolicy,
    OverlapRule,
)
from mainspring.domain.task import DEFAULT_QUEUE
from mainspring.domain.values import check_instant, check_name, shown
from mainspring.domain.webhooks import Webhook
from mainspring.ports.schedules import TaskTemplate


class ScheduleKeywords(TypedDict, total=False):
    """Choices about a schedule; None means not given. `domain.schedule.ScheduleSpec` says what
    they mean, and `core.options.TaskOptions` what the last nine do to each task.
    """

    cron: str | Sequence[str] | None
    every: float | timedelta | None
    at: datetime | str | None
    timezone: str | None
    anchor: datetime | str | None
    gap: str | None
    fold: str | None
    start_at: datetime | str | None
    end_at: datetime | str | None
    exclusions: Sequence[ExclusionCalendar | Mapping[str, Any]] | None
    jitter: float | timedelta | None
    max_runs: int | None
    misfire: str | MisfirePolicy | None
    misfire_window: float | timedelta | None
    misfire_limit: int | None
    misfire_tolerance: float | timedelta | None
    overlap: str | OverlapPolicy | None
    overlap_limit: int | None
    start_deadline: float | timedelta | None
    pause_after_failures: int | None
    queue: str | None
    priority: int | None
    timeout: float | timedelta | None
    max_retries: int | None
    backoff: Backoff | str | None
    labels: Sequence[str] | str | None
    group_key: str | None
    unique_key: str | None
    webhook: str | Mapping[str, Any] | Webhook | None


TASK_WORDS: Final = frozenset(
    {
        "queue",
        "priority",
        "timeout",
        "max_retries",
        "backoff",
        "labels",
        "group_key",
        "unique_key",
        "webhook",
    }
)

_KINDS: Final = frozenset({"cron", "every_seconds", "at"})
_SECONDS: Final = {
    "every": "every_seconds",
    "jitter": "jitter_seconds",
    "start_deadline": "start_deadline_seconds",
}
_INSTANTS: Final = frozenset({"at", "anchor", "start_at", "end_at"})
_PLAIN: Final = frozenset({"timezone", "gap", "fold", "max_runs", "pause_after_failures"})
_NESTED: Final = {
    "misfire_window": ("misfire", "window_seconds"),
    "misfire_limit": ("misfire", "limit"),
    "misfire_tolerance": ("misfire", "tolerance_seconds"),
    "overlap_limit": ("overlap", "limit"),
}
WORDS: Final = frozenset(ScheduleKeywords.__annotations__) - TASK_WORDS
_ELSEWHERE: Final = {
    "key": "each of its times makes one task anyway, and with unique_key none beside a live one",
    "delay": "its times say when, and jitter delays them",
    "scheduled_at": "at is a single time",
}
"""What submissions take and schedules do not, and what there is instead."""


def spec_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return choices about the timetable and its policies in the JSON form of a spec.

    Raises `InvalidValue` for a word that there is not, or a value of the wrong kind.
    """
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name in TASK_WORDS or value is None:
            continue
        if name in _SECONDS:
            changes[_SECONDS[name]] = _seconds(value)
        elif name in _NESTED:
            group, key = _NESTED[name]
            changes.setdefault(group, {})[key] = _seconds(value)
        elif name in _INSTANTS:
            changes[name] = _instant(value, name)
        elif name in ("misfire", "overlap"):
            changes.setdefault(name, {}).update(_policy(value, name))
        elif name == "cron":
            changes[name] = [value] if isinstance(value, str) else list(value)
        elif name == "exclusions":
            changes[name] = [_calendar(one) for one in value]
        elif name in _PLAIN:
            changes[name] = value
        else:
            known = _ELSEWHERE.get(name) or "there are: " + ", ".join(sorted(WORDS | TASK_WORDS))
            raise InvalidValue(f"{name} is not an option of a schedule; {known}", field=name)
    return changes


def merged(
    known: Mapping[str, Any], changes: Mapping[str, Any], clear: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the JSON form of a spec after an edit; what is in `clear` has its default again.

    One kind of timetable takes the place of another. The anchor is left to `apply_edit`, which
    keeps it where the interval stays.
    """
    result = {name: value for name, value in known.items() if name != "anchor"}
    if _KINDS & changes.keys():
        result = {name: value for name, value in result.items() if name not in _KINDS}
    for name in clear:
        if name in TASK_WORDS:
            continue
        if name not in WORDS:
            known_words = ", ".join(sorted(WORDS | TASK_WORDS))
            raise InvalidValue(
                f"clear names {shown(name)}; it may name: {known_words}", field="clear"
            )
        if name in _NESTED:
            group, key = _NESTED[name]
            result[group] = {k: v for k, v in (result.get(group) or {}).items() if k != key}
        else:
            result.pop(_SECONDS.get(name, name), None)
    for name, value in changes.items():
        if name not in ("misfire", "overlap"):
            result[name] = value
        elif name == "overlap" and "rule" in value:
            # A limit belongs to its rule.
            result[name] = value
        else:
            result[name] = {**(result.get(name) or {}), **value}
    return result


def template_of(
    task_type: str,
    payload: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    definition: TaskDefinition | None,
    known: TaskTemplate | None = None,
    clear: Sequence[str] = (),
) -> TaskTemplate:
    """Return what each run submits, checked as a submission is.

    What is not given stays as it is in `known`, unless it is in `clear`, or else is the default of
    the task type. So are the keys that the task type has for a payload.
    """
    chosen = checked_options({name: given.get(name) for name in TASK_WORDS})
    if payload is None and known is not None:
        text = known.payload
    else:
        text = encode_payload({} if payload is None else payload, definition)
    check_builtin(task_type, text)
    if known is not None:
        kept = _options_of(known)
        derived = () if payload is None else _derived(known, definition)
        dropped = {name: None for name in (*clear, *derived) if name in TASK_WORDS}
        chosen = chosen.over(msgspec.structs.replace(kept, **dropped))
    full: Any = complete_options(chosen, definition)
    add_keys = None if definition is None else keys_of(definition)
    if add_keys is not None:
        full = add_keys(full, text)
    return TaskTemplate(
        task_type=check_name(task_type, "task_type"),
        payload=text,
        queue=branch_of(full.queue or DEFAULT_QUEUE, full.labels),
        priority=full.priority,
        timeout_seconds=full.timeout,
        max_retries=full.max_retries,
        backoff=full.backoff,
        group_key=full.group_key,
        unique_key=full.unique_key,
        webhook=full.webhook,
    )


def check_replacing(overlap: OverlapPolicy, template: TaskTemplate) -> None:
    """Refuse to let a run take the place of one that has its unique key and is live until it has
    stopped: there would be none.
    """
    if template.unique_key is not None and overlap.rule is OverlapRule.CANCEL_PREVIOUS:
        raise InvalidValue(
            f"overlap is {overlap.rule.value} and the runs have the unique key "
            f"{shown(plain_key(template.unique_key))}, so none could be made beside one that is "
            "being cancelled; choose overlap buffer_one, or leave unique_key out",
            field="overlap",
        )


def _options_of(known: TaskTemplate) -> TaskOptions:
    return TaskOptions(
        queue=base_of(known.queue),
        priority=known.priority,
        timeout=known.timeout_seconds,
        max_retries=known.max_retries,
        backoff=known.backoff,
        labels=labels_of(known.queue),
        group_key=known.group_key,
        unique_key=known.unique_key,
        webhook=known.webhook,
    )


def _derived(known: TaskTemplate, definition: TaskDefinition | None) -> list[str]:
    """Return which keys of a schedule are those that its task type has for its payload."""
    add_keys = None if definition is None else keys_of(definition)
    if add_keys is None:
        return []
    try:
        made = add_keys(NO_OPTIONS, known.payload)
    except (MainspringError, ValueError):
        # The payload of before is none for the handler of now, and the keys were given by hand.
        return []
    return [
        name
        for name in ("group_key", "unique_key")
        if getattr(made, name) is not None and getattr(made, name) == getattr(known, name)
    ]


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _instant(value: Any, field: str) -> Any:
    if isinstance(value, datetime):
        return check_instant(value, field).isoformat()
    return value


def _policy(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, MisfirePolicy) and name == "misfire":
        return {
            "rule": value.rule.value,
            "window_seconds": value.window.total_seconds(),
            "limit": value.limit,
            "tolerance_seconds": value.tolerance.total_seconds(),
        }
    if isinstance(value, OverlapPolicy) and name == "overlap":
        return {"rule": value.rule.value, "limit": value.limit}
    if isinstance(value, Mapping):
        return dict(value)
    return {"rule": value}


def _calendar(value: Any) -> Any:
    if isinstance(value, ExclusionCalendar):
        return {
            "name": value.name,
            "dates": [day.isoformat() for day in sorted(value.dates)],
            "patterns": list(value.patterns),
            "rule": value.rule.value,
            "weekend": sorted(value.weekend),
        }
    if isinstance(value, Mapping):
        dates = [
            day.isoformat() if isinstance(day, date) else day for day in value.get("dates") or ()
        ]
        return {**value, "dates": dates}
    return value
