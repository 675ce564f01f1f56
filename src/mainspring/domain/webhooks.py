"""Webhooks: a URL that is told when a task ends.

The delivery is a task of its own, made in the statement that ends the task, so it is as durable
as the task, retried as every task is, and shown wherever tasks are shown.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import EPOCH
from mainspring.domain.retry import Backoff
from mainspring.domain.targets import parse_target
from mainspring.domain.values import check_name, shown

DELIVERY_TYPE: Final = "mainspring.webhook"
DELIVERY_QUEUE: Final = "webhooks"
DELIVERY_TIMEOUT_SECONDS: Final = 30.0
DELIVERY_RETRIES: Final = 11
DELIVERY_BACKOFF: Final = Backoff(base_seconds=10.0, multiplier=3.0, max_seconds=3600.0)
"""Ten seconds, half a minute, ...: twelve attempts in about six hours."""

DELIVERY_PRIORITY: Final = 5

_FIELDS: Final = ("url", "events", "sign")
_TIMESTAMP_DIGITS: Final = 12


class Event(StrEnum):
    """How a task may end."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of the end of a task, and of which ends. Made by `check_webhook`."""

    url: str
    events: tuple[Event, ...] = tuple(Event)
    sign: str | None = None
    """Name of the secret that signs the deliveries."""

    queue: str = DELIVERY_QUEUE
    """Where the deliveries wait."""


def check_webhook(value: object, field: str = "webhook") -> Webhook:
    """Accept a URL, or an object with a `url` and, if wished, `events` and `sign`."""
    if isinstance(value, Webhook):
        value = {"url": value.url, "events": list(value.events), "sign": value.sign}
    given: Mapping[Any, Any] = value if isinstance(value, Mapping) else {"url": value}
    unknown = given.keys() - set(_FIELDS)
    if unknown:
        name = shown(min(unknown, key=str))[1:-1]
        message = f"{field}.{name} is not a field of a webhook; there are: {', '.join(_FIELDS)}"
        raise InvalidValue(message, field=f"{field}.{name}")
    url_field = f"{field}.url" if isinstance(value, Mapping) else field
    parse_target(given.get("url"), url_field)
    sign = given.get("sign")
    return Webhook(
        url=given["url"],
        events=_events(given.get("events"), f"{field}.events"),
        sign=None if sign is None else check_name(sign, f"{field}.sign"),
    )


def _events(value: object, field: str) -> tuple[Event, ...]:
    if value is None:
        return tuple(Event)
    if isinstance(value, list | tuple) and value and set(map(str, value)) <= set(Event):
        wanted = set(map(str, value))
        return tuple(event for event in Event if event in wanted)
    choices = ", ".join(Event)
    raise InvalidValue(f"{field} is {shown(value)}; give a list of: {choices}", field=field)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task, as its webhook is told of it. Results are not told: who may see them
    asks for the task.
    """

    event: Event
    task_id: UUID
    task_type: str
    queue: str
    attempt_count: int
    ended_at: str
    error: str | None = None
    """The last error of a task that failed or was discarded."""

    reason: str | None = None
    """Why it was cancelled or discarded, if someone said."""


def delivery_payload(webhook: Webhook, ending: Ending) -> str:
    """Return the payload of a delivery task."""
    body = msgspec.to_builtins(ending)
    payload = {"url": webhook.url, "sign": webhook.sign, "body": body}
    return msgspec.json.encode(payload).decode()


def delivery_id(task_id: UUID, fencing_token: int, event: Event, at: datetime) -> UUID:
    """Return the id of a delivery task: the same whoever makes it, new with the time as every id
    is, and in the partition of the task that ended.
    """
    digest = sha256(f"{task_id}/{fencing_token}/{event}".encode()).hexdigest()
    milliseconds = (at - EPOCH) // timedelta(milliseconds=1)
    stamp = format(milliseconds, f"0{_TIMESTAMP_DIGITS}x")
    return UUID(f"{stamp}7{digest[:3]}8{digest[3:6]}{digest[6:14]}{task_id.hex[-4:]}")


def instant_text(moment: datetime) -> str:
    """Return a time as deliveries tell it: UTC, with microseconds."""
    return re.sub(r"\+00:00$", "Z", moment.astimezone(UTC).isoformat(timespec="microseconds"))
