"""The requests about schedules."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from mainspring.client.exchange import Request, get, given, in_path, send
from mainspring.client.task_requests import plain
from mainspring.core.json_encoding import encode

_PATH: Final = "/v1/schedules"


def create(
    name: str,
    task_type: str,
    payload: Mapping[str, Any] | None,
    on_conflict: str,
    options: Mapping[str, Any],
) -> Request[dict[str, Any]]:
    """Make a schedule; making the same one twice changes nothing."""
    body = {"name": name, "task_type": task_type, "on_conflict": on_conflict}
    return send("POST", _PATH, body | _choices(payload, options), is_repeatable=True)


def update(
    name: str,
    payload: Mapping[str, Any] | None,
    clear: Sequence[str],
    options: Mapping[str, Any],
) -> Request[dict[str, Any]]:
    """Change what is given."""
    body = {"clear": list(clear)} if clear else {}
    return send("PATCH", _of(name), body | _choices(payload, options), is_repeatable=True)


def look(name: str) -> Request[dict[str, Any]]:
    """Look at a schedule."""
    return get(_of(name))


def all_of_them() -> Request[dict[str, Any]]:
    """List schedules."""
    return get(_PATH)


def delete(name: str) -> Request[dict[str, Any]]:
    """Forget a schedule. A second time there would be none."""
    return send("DELETE", _of(name), None)


def pause(name: str, note: str) -> Request[dict[str, Any]]:
    """Pause a schedule."""
    return send("POST", f"{_of(name)}/pause", {"note": note}, is_repeatable=True)


def resume(name: str, note: str, *, catch_up: bool) -> Request[dict[str, Any]]:
    """Let a schedule go on."""
    body = {"note": note, "catch_up": catch_up}
    return send("POST", f"{_of(name)}/resume", body, is_repeatable=True)


def trigger(name: str, overlap: str | None) -> Request[dict[str, Any]]:
    """Run a schedule now; twice would be two runs."""
    return send("POST", f"{_of(name)}/trigger", given(overlap=overlap))


def backfill(
    name: str, start: datetime | str, end: datetime | str, *, limit: int, dry_run: bool
) -> Request[dict[str, Any]]:
    """Run times of the past. A second time it would not tell which ones it was that ran."""
    body = {"start": start, "end": end, "limit": limit, "dry_run": dry_run}
    return send("POST", f"{_of(name)}/backfill", body, is_repeatable=dry_run)


def history(name: str, limit: int, before: datetime | str | None) -> Request[dict[str, Any]]:
    """List what became of the times of a schedule."""
    return get(f"{_of(name)}/history", {"limit": limit, "before": before})


def preview(options: Mapping[str, Any]) -> Request[dict[str, Any]]:
    """Look ahead at a timetable."""
    return send("POST", f"{_PATH}/preview", _choices(None, options), is_repeatable=True)


def _of(name: str) -> str:
    return f"{_PATH}/{in_path(name)}"


def _choices(payload: Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {
        "retry_backoff" if name == "backoff" else name: plain(value)
        for name, value in options.items()
        if value is not None
    }
    if payload is not None:
        text = encode(dict(payload), "payload", strict=True)
        chosen["payload"] = msgspec.Raw(text.encode())
    return chosen
