"""The requests about tasks."""

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from mainspring.client.exchange import Request, get, given, in_path, send
from mainspring.core.json_encoding import encode
from mainspring.core.lifecycle import STALENESS_SECONDS_MAX
from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.retry import Backoff
from mainspring.domain.values import BATCH_MAX, check_seconds, kind_of
from mainspring.domain.webhooks import Webhook

BATCH_BYTES: Final = 8 << 20
"""Of a batch in one request; the API takes twice as much."""

BATCH_TASKS: Final = 2000
PAGE_TASKS: Final = 200
_WORDS: Final = {"at": "scheduled_at", "in_": "delay", "backoff": "retry_backoff"}


def submit(
    task_type: str, payload: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> Request[dict[str, Any]]:
    """Store one task."""
    body = with_key({"task_type": task_type, "payload": payload, **options})
    return send("POST", "/v1/tasks", body, is_repeatable=True)


def batches(tasks: Sequence[Mapping[str, Any]]) -> Iterator[Request[dict[str, Any]]]:
    """Store many tasks, in as many requests as it takes."""
    if len(tasks) > BATCH_MAX:
        message = f"tasks has {len(tasks):,} entries; submit at most {BATCH_MAX:,} in one call"
        raise PayloadTooLarge(message, field="tasks")
    lines = [msgspec.json.encode(with_key(task, f"tasks[{n}].")) for n, task in enumerate(tasks)]
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (size + len(line) > BATCH_BYTES or len(part) == BATCH_TASKS):
            yield _batch(part)
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield _batch(part)


def _batch(lines: Sequence[bytes]) -> Request[dict[str, Any]]:
    body = b'{"tasks":[' + b",".join(lines) + b"]}"
    return Request(method="POST", path="/v1/tasks/batch", kind=dict, body=body, is_repeatable=True)


def with_key(task: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a task in the words of the API, with an idempotency key, so that it can be sent
    twice. One with a unique key can be without: while the first is live there is no second.
    """
    body = {_WORDS.get(name, name): plain(value) for name, value in task.items()}
    payload = {} if body.get("payload") is None else body["payload"]
    if not isinstance(payload, Mapping):
        message = f"{prefix}payload is {kind_of(payload)}; give an object, the handler's parameters"
        raise InvalidValue(message, field=f"{prefix}payload")
    body["payload"] = msgspec.Raw(encode(dict(payload), f"{prefix}payload", strict=True).encode())
    if body.get("key") is None and body.get("unique_key") is None:
        body["key"] = secrets.token_hex(16)
    return body


def plain(value: Any) -> Any:
    """Return an option as JSON has it: durations in seconds, back-off and webhook as objects."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Backoff):
        return {
            "kind": value.kind,
            "base": value.base_seconds,
            "multiplier": value.multiplier,
            "max": value.max_seconds,
        }
    if isinstance(value, Webhook):
        return {"url": value.url, "events": list(value.events), "sign": value.sign}
    return value


def look(task_id: UUID | str, max_staleness: float = 0.0) -> Request[dict[str, Any]]:
    """Look at a task, as it was so many seconds ago at most."""
    seconds = check_seconds(max_staleness, "max_staleness", STALENESS_SECONDS_MAX, zero=True)
    request = get(f"/v1/tasks/{in_path(task_id)}")
    headers = (("Max-Staleness", str(seconds)),) if seconds else ()
    return dataclasses.replace(request, headers=headers)


def page(
    filters: Mapping[str, Any], cursor: str | None, limit: int = PAGE_TASKS
) -> Request[dict[str, Any]]:
    """Look at a page of tasks, newest first."""
    return get("/v1/tasks", {**filters, "cursor": cursor, "limit": limit})


def cancel(task_id: UUID | str, reason: str | None) -> Request[dict[str, Any]]:
    """Cancel a task. A second time it would be told that the task has ended."""
    return send("POST", f"/v1/tasks/{in_path(task_id)}/cancel", given(reason=reason))


def reschedule(task_id: UUID | str, at: datetime | str) -> Request[dict[str, Any]]:
    """Move a waiting task to another time."""
    body = {"scheduled_at": at}
    path = f"/v1/tasks/{in_path(task_id)}/reschedule"
    return send("POST", path, body, is_repeatable=True)


def run_now(task_id: UUID | str) -> Request[dict[str, Any]]:
    """Let a waiting task run now."""
    return send("POST", f"/v1/tasks/{in_path(task_id)}/run-now", None, is_repeatable=True)
