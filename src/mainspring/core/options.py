"""What a caller may choose about one task, checked field by field.

The same words are used for the defaults of a task type, for one submission in Python and on the
command line, and for a line of an imported file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import Labels, check_labels
from mainspring.domain.priority import DEFAULT
from mainspring.domain.retry import DELAY_MAX_SECONDS, Backoff, BackoffKind
from mainspring.domain.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
)
from mainspring.domain.values import (
    RETRIES_MAX,
    check_instant,
    check_key,
    check_name,
    check_priority,
    check_seconds,
    check_whole,
    parse_instant,
    shown,
)
from mainspring.domain.webhooks import Webhook, check_webhook

DELAY_SECONDS_MAX: Final = 3653 * 86400.0
"""A task may be submitted to run up to ten years from now by delay."""

_MULTIPLIER_MAX: Final = 100


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Choices for one task; None leaves what the task type, or Mainspring, has as its default.

    Build it with `checked_options`, which refuses what cannot be accepted.
    """

    queue: str | None = None
    """Queue the task waits in (default: `default`)."""

    priority: int | None = None
    """0 (most urgent) to 10 (default: 5)."""

    at: datetime | None = None
    """When to run, with an offset from UTC (default: now). A time in the past means now."""

    delay: float | None = None
    """Seconds from now until the task runs; instead of `at`."""

    timeout: float | None = None
    """Longest an attempt may run, in seconds, up to 30 days (default: 300)."""

    max_retries: int | None = None
    """Further attempts after the first, 0 to 1000 (default: 3)."""

    backoff: Backoff | None = None
    """How long to wait between attempts (default: exponential, 2 s doubling up to 300 s)."""

    key: str | None = None
    """Idempotency key: submitting the same task twice under one key makes one task."""

    labels: Labels | None = None
    """What the worker has to offer, such as ``gpu`` or ``region=eu`` (default: nothing)."""

    group_key: str | None = None
    """What it shares starts and limits by with other tasks of its queue, such as the id of a
    customer: 1 to 255 printable characters (default: it is in no group)."""

    unique_key: str | None = None
    """While a task with this key (and the same group key) waits or runs, submitting another answers
    with that one: 1 to 255 printable characters. Not together with `key`."""

    webhook: Webhook | None = None
    """URL that is told when the task ends; or an object with a `url`, the `events` it is told of
    (completed, failed, cancelled, discarded; default: all) and the name of a secret to `sign`
    with. Deliveries are tasks; they need a worker that serves `http` tasks."""

    def over(self, defaults: "TaskOptions") -> "TaskOptions":
        """Return these choices, with those of `defaults` where nothing was chosen here."""
        chosen = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        if self.at is not None or self.delay is not None:
            defaults = msgspec.structs.replace(defaults, at=None, delay=None)
        return msgspec.structs.replace(defaults, **chosen)


class OptionKeywords(TypedDict, total=False):
    """The same choices as keyword arguments; see `TaskOptions` for what they mean."""

    queue: str | None
    priority: int | None
    at: datetime | str | None
    scheduled_at: datetime | str | None
    delay: float | timedelta | None
    in_: float | timedelta | None
    timeout: float | timedelta | None
    max_retries: int | None
    backoff: Backoff | str | None
    key: str | None
    labels: Sequence[str] | str | None
    group_key: str | None
    unique_key: str | None
    webhook: str | Mapping[str, Any] | Webhook | None


_NAMES: Final = TaskOptions.__struct_fields__

NO_OPTIONS: Final = TaskOptions()

DEFAULTS: Final = TaskOptions(
    queue=DEFAULT_QUEUE,
    priority=DEFAULT,
    timeout=DEFAULT_TIMEOUT_SECONDS,
    max_retries=DEFAULT_MAX_RETRIES,
    backoff=Backoff(),
    labels=(),
)


def checked_options(given: Mapping[str, Any], prefix: str = "") -> TaskOptions:
    """Accept options by name; None means not given. `prefix` stands before the field in errors.

    `at` (also `scheduled_at`) takes a datetime with an offset or ISO 8601 text; `delay` (also
    `in_`) and `timeout` take seconds or a timedelta; `backoff` takes a `Backoff` or the name of a
    kind; `labels` a list or text with commas. Raises `InvalidValue` with the name of the field.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        target = _ALIASES.get(name, name)
        if target not in _NAMES:
            known = ", ".join(_NAMES)
            message = f"{prefix}{name} is not an option of a task; there are: {known}"
            raise InvalidValue(message, field=prefix + name)
        if target in options:
            message = f"{prefix}{target} is given twice; keep one"
            raise InvalidValue(message, field=prefix + target)
        options[target] = _check(target, prefix + name, value)
    if "at" in options and "delay" in options:
        message = f"{prefix}at and {prefix}delay are both given; a task runs at one time, keep one"
        raise InvalidValue(message, field=prefix + "delay")
    if "unique_key" in options and "key" in options:
        raise InvalidValue(f"{prefix}{BOTH_KEYS}", field=prefix + "unique_key")
    return TaskOptions(**options)


BOTH_KEYS: Final = (
    "unique_key and key are both given; keep key to make a task once for ever, or unique_key to "
    "make none beside one that is live"
)

_KEYS: Final = {
    "key": "an idempotency key",
    "group_key": "a group key",
    "unique_key": "a unique key",
}
_ALIASES: Final = {"scheduled_at": "at", "in_": "delay", "retry_backoff": "backoff"}


def _check(name: str, field: str, value: Any) -> Any:  # noqa: PLR0911 - one return for each option
    if name in _KEYS:
        return check_key(value, field, _KEYS[name])
    match name:
        case "queue":
            return check_name(value, field)
        case "priority":
            return check_priority(value, field)
        case "at":
            return (
                parse_instant(value, field)
                if isinstance(value, str)
                else check_instant(value, field)
            )
        case "delay":
            return check_seconds(_seconds(value), field, DELAY_SECONDS_MAX, zero=True)
        case "timeout":
            return check_seconds(_seconds(value), field)
        case "max_retries":
            return check_whole(value, field, 0, RETRIES_MAX)
        case "backoff":
            return check_backoff(value, field)
        case "labels":
            return check_labels(value, field)
        case _:
            return check_webhook(value, field)


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def check_backoff(value: object, field: str = "backoff") -> Backoff:
    """Accept a `Backoff` within bounds, or the name of a kind with the default times."""
    if isinstance(value, Backoff):
        check_seconds(value.base_seconds, f"{field}.base_seconds", DELAY_MAX_SECONDS, zero=True)
        check_seconds(value.max_seconds, f"{field}.max_seconds", DELAY_MAX_SECONDS, zero=True)
        check_seconds(value.multiplier, f"{field}.multiplier", _MULTIPLIER_MAX)
        return Backoff(
            check_backoff(str(value.kind), f"{field}.kind").kind,
            float(value.base_seconds),
            float(value.multiplier),
            float(value.max_seconds),
        )
    if isinstance(value, str) and value in set(BackoffKind):
        return Backoff(BackoffKind(value))
    kinds = ", ".join(BackoffKind)
    message = f"{field} is {shown(value)}; choose from {kinds}, or give a Backoff with its times"
    raise InvalidValue(message, field=field)


def fingerprint(task_type: str, payload: str, options: TaskOptions) -> str:
    """Return the digest of what was asked for: equal for two submissions that ask for the same."""
    chosen = {**msgspec.structs.asdict(options), "key": None}
    # As before there were labels, webhooks and groups, so that keys of that time still fit.
    for name in ("labels", "webhook", "group_key", "unique_key"):
        if not chosen[name]:
            del chosen[name]
    asked = (task_type, msgspec.json.decode(payload), chosen)
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()
