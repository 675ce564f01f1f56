"""The part of `client.installation` that is about schedules."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from mainspring.client import schedule_requests
from mainspring.client.coroutines import Client
from mainspring.client.exchange import read_as
from mainspring.core.schedule_options import (
    check_replacing,
    merged,
    spec_changes,
    template_of,
)
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import BackfillResult, Change, OnConflict
from mainspring.domain.placement import base_of, check_labels, labels_of
from mainspring.domain.schedule import BackfillRun, load_spec
from mainspring.domain.values import check_name, parse_instant
from mainspring.ports.schedules import Tick

_INSTANTS: Final = frozenset({"at", "anchor", "start_at", "end_at"})


class _Schedules(msgspec.Struct):
    schedules: list[Schedule]


class _Ticks(msgspec.Struct):
    ticks: list[Tick]


class _Backfill(msgspec.Struct):
    runs: tuple[BackfillRun, ...]
    started: tuple[datetime, ...]
    truncated: bool
    dry_run: bool


class ApiSchedules:
    """Schedules through the API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(
        self, name: str, change: Change, on_conflict: OnConflict = OnConflict.ERROR
    ) -> Schedule:
        """Make a schedule; an app's defaults for its runs are sent with it."""
        check_name(name, "name")
        spec = load_spec(merged({}, spec_changes(change.options)))
        template = template_of(
            change.task_type or "", change.payload, change.options, change.definition
        )
        check_replacing(spec.overlap, template)
        options = _options(change.options)
        if change.definition is not None:
            options |= {
                "queue": base_of(template.queue),
                "labels": list(labels_of(template.queue)),
                "priority": template.priority,
                "timeout": template.timeout_seconds,
                "max_retries": template.max_retries,
                "backoff": template.backoff,
                "group_key": template.group_key,
                "unique_key": template.unique_key,
            }
        request = schedule_requests.create(
            name, template.task_type, change.payload, on_conflict, options
        )
        return await self._client.call(read_as(request, Schedule))

    async def update(self, name: str, change: Change) -> Schedule:
        """Change a schedule."""
        spec_changes(change.options)
        options = _options(change.options)
        if change.task_type:
            options["task_type"] = check_name(change.task_type, "task_type")
        request = schedule_requests.update(name, change.payload, change.clear, options)
        return await self._client.call(read_as(request, Schedule))

    async def get(self, name: str) -> Schedule:
        """Return a schedule."""
        return await self._client.call(read_as(schedule_requests.look(name), Schedule))

    async def all(self) -> list[Schedule]:
        """Return all schedules in the order of their names."""
        request = read_as(schedule_requests.all_of_them(), _Schedules)
        return (await self._client.call(request)).schedules

    async def pause(self, name: str, note: str = "") -> Schedule:
        """Let a schedule make no more runs."""
        return await self._client.call(read_as(schedule_requests.pause(name, note), Schedule))

    async def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> Schedule:
        """Let a schedule go on."""
        request = schedule_requests.resume(name, note, catch_up=catch_up)
        return await self._client.call(read_as(request, Schedule))

    async def delete(self, name: str) -> None:
        """Forget a schedule."""
        await self._client.schedules.delete(name)

    async def trigger(self, name: str, overlap: str | None = None) -> Tick:
        """Run a schedule now."""
        return await self._client.call(read_as(schedule_requests.trigger(name, overlap), Tick))

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int = 1000, dry_run: bool = False
    ) -> BackfillResult:
        """Run nominal times of the past now."""
        request = schedule_requests.backfill(name, start, end, limit=limit, dry_run=dry_run)
        found = await self._client.call(read_as(request, _Backfill))
        return BackfillResult(**msgspec.structs.asdict(found))

    async def history(
        self, name: str, limit: int = 50, before: datetime | None = None
    ) -> list[Tick]:
        """Return what became of the nominal times of a schedule, newest first."""
        request = read_as(schedule_requests.history(name, limit, before), _Ticks)
        return (await self._client.call(request)).ticks


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as the API wants them, whichever way their times and labels were written."""
    options = {
        name: parse_instant(value, name) if name in _INSTANTS and isinstance(value, str) else value
        for name, value in given.items()
    }
    if options.get("labels") is not None:
        options["labels"] = list(check_labels(options["labels"]))
    return options
