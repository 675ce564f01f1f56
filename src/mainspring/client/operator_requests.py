"""The requests about dead letters, queues, workers and figures."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from mainspring.client.exchange import Request, get, given, in_path, send
from mainspring.client.task_requests import PAGE_TASKS
from mainspring.core.json_encoding import encode


def dead_letter_page(
    filters: Mapping[str, Any], cursor: str | None, limit: int = PAGE_TASKS
) -> Request[dict[str, Any]]:
    """Look at a page of dead letters, newest first."""
    return get("/v1/dead-letters", {**filters, "cursor": cursor, "limit": limit})


def dead_letter(task_id: UUID | str) -> Request[dict[str, Any]]:
    """Look at a dead letter."""
    return get(f"/v1/dead-letters/{in_path(task_id)}")


def selection(
    task_ids: Sequence[UUID | str], task_type: str | None, *, everything: bool
) -> dict[str, Any]:
    """Return which dead letters are meant."""
    which: dict[str, Any] = {}
    if task_ids:
        which["ids"] = list(task_ids)
    if task_type is not None:
        which["task_type"] = task_type
    if everything:
        which["all"] = True
    return which


def replay(which: Mapping[str, Any], payload: Mapping[str, Any] | None) -> Request[dict[str, Any]]:
    """Run dead letters again; a second time they would be none."""
    body = dict(which)
    if payload is not None:
        body["payload"] = msgspec.Raw(encode(dict(payload), "payload", strict=True).encode())
    return send("POST", "/v1/dead-letters/replay", body)


def discard(which: Mapping[str, Any], reason: str) -> Request[dict[str, Any]]:
    """Give dead letters up; a second time they would be none."""
    return send("POST", "/v1/dead-letters/discard", {**which, "reason": reason})


def queues() -> Request[dict[str, Any]]:
    """List queues."""
    return get("/v1/queues")


def pause_queue(queue: str) -> Request[dict[str, Any]]:
    """Let no task of a queue start."""
    return send("POST", f"/v1/queues/{in_path(queue)}/pause", None, is_repeatable=True)


def resume_queue(queue: str) -> Request[dict[str, Any]]:
    """Let the tasks of a queue start again."""
    return send("POST", f"/v1/queues/{in_path(queue)}/resume", None, is_repeatable=True)


def queue_limits(queue: str) -> Request[dict[str, Any]]:
    """Look at the limits of a queue and of its groups."""
    return get(f"/v1/queues/{in_path(queue)}/limits")


def limit_queue(
    queue: str, whole: Mapping[str, Any] | None, group: Mapping[str, Any] | None
) -> Request[dict[str, Any]]:
    """Limit a queue as a whole, each of its groups, or both."""
    body = given(queue=whole, group=group)
    return send("PUT", f"/v1/queues/{in_path(queue)}/limits", body, is_repeatable=True)


def limit_group(queue: str, group_key: str, limit: Mapping[str, Any]) -> Request[dict[str, Any]]:
    """Give one group of a queue a limit of its own."""
    return send("PUT", _of_group(queue, group_key), limit, is_repeatable=True)


def unlimit_group(queue: str, group_key: str) -> Request[dict[str, Any]]:
    """Give one group of a queue the limit of every group again."""
    return send("DELETE", _of_group(queue, group_key), None, is_repeatable=True)


def _of_group(queue: str, group_key: str) -> str:
    return f"/v1/queues/{in_path(queue)}/limits/groups/{in_path(group_key)}"


def workers() -> Request[dict[str, Any]]:
    """List workers."""
    return get("/v1/workers")


def stats() -> Request[dict[str, Any]]:
    """Look at the figures of the installation."""
    return get("/v1/stats")
