"""What a caller may choose about a schedule, checked field by field.

The same words are used in Python, on the command line and in an imported file. They become the
JSON form of a spec (`domain.schedule.load_spec`), which checks what they mean together.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, TypedDict

from mainspring.core.builtin_tasks import check_builtin
from mainspring.core.options import TaskOptions, checked_options
from mainspring.core.registry import TaskDefinition
from mainspring.core.submission import complete_options, encode_payload
from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import base_of, branch_of, labels_of
from mainspring.domain.retry import Backoff
from mainspring.domain.schedule import ExclusionCalendar, MisfirePolicy, OverlapPolicy
from mainspring.domain.task import DEFAULT_QUEUE
from mainspring.domain.values import check_instant, check_name, shown
from mainspring.ports.schedules import TaskTemplate


class ScheduleKeywords(TypedDict, total=False):
    """Choices about a schedule; None means not given. `domain.schedule.ScheduleSpec` says what
    they mean, and `core.options.TaskOptions` what the last six do to each task.
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


TASK_WORDS: Final = frozenset({"queue", "priority", "timeout", "max_retries", "backoff", "labels"})

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
            known = ", ".join(sorted(WORDS | TASK_WORDS))
            raise InvalidValue(
                f"{name} is not an option of a schedule; there are: {known}", field=name
            )
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
        if name not in WORDS:
            known_words = ", ".join(sorted(WORDS))
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
) -> TaskTemplate:
    """Return what each run submits, checked as a submission is.

    What is not given stays as it is in `known`, or else is the default of the task type.
    """
    chosen = checked_options({name: given.get(name) for name in TASK_WORDS})
    full = complete_options(chosen, definition)
    template = {
        "task_type": check_name(task_type, "task_type"),
        "queue": _branch(chosen, full, known),
        "priority": full.priority,
        "timeout_seconds": full.timeout,
        "max_retries": full.max_retries,
        "backoff": full.backoff,
    }
    if known is not None:
        words = {"timeout": "timeout_seconds"}
        for word in TASK_WORDS - {"queue", "labels"}:
            if getattr(chosen, word) is None:
                name = words.get(word, word)
                template[name] = getattr(known, name)
    if payload is None and known is not None:
        text = known.payload
    else:
        text = encode_payload({} if payload is None else payload, definition)
    check_builtin(task_type, text)
    return TaskTemplate(payload=text, **template)  # type: ignore[arg-type]


def _branch(chosen: TaskOptions, full: TaskOptions, known: TaskTemplate | None) -> str:
    """Return the queue of the runs as it is stored, with the labels that they need."""
    queue, labels = full.queue, full.labels
    if known is not None:
        queue = base_of(known.queue) if chosen.queue is None else queue
        labels = labels_of(known.queue) if chosen.labels is None else labels
    return branch_of(queue or DEFAULT_QUEUE, labels)


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
