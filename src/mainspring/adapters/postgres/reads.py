"""Reads for people."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.adapters.postgres.rows import task_of
from mainspring.core.branches import StoredQueue, queue_states
from mainspring.domain.cursors import cursor_before, read_cursor
from mainspring.domain.ids import floor_id
from mainspring.domain.limits import Limit
from mainspring.domain.status import TERMINAL, TaskStatus
from mainspring.domain.task import Task
from mainspring.ports.branches import HEAD_TASKS, Unplaceable
from mainspring.ports.store import COUNT_MAX, Page, QueueState, TaskFilter

_GET: Final = QUERIES["get"]
_STATUSES: Final = QUERIES["statuses"]
_FLOOR: Final = QUERIES["scan_floor"]
_PAGE: Final = QUERIES["page"]
_FINISHED: Final = QUERIES["page_finished"]
_RUNNING: Final = QUERIES["page_running"]
_COUNT: Final = QUERIES["dead_letter_count"]
_QUEUES: Final = QUERIES["queues"]
_UNSERVED: Final = QUERIES["unserved"]
_UNPLACEABLE: Final = QUERIES["unplaceable"]

_LOWEST: Final = UUID(int=0)
_HIGHEST: Final = UUID(int=(1 << 128) - 1)
_SCAN_ROWS: Final = 20_000
"""Rows of each table that one step of a page looks at."""

_SCAN_STEPS: Final = 10
"""Steps after which a page is given out although it is not full."""

_CLOCKS_APART: Final = timedelta(days=1)
"""The time in an id is that of the client that made it, and `created_at` that of the server; a
filter by time trusts that they are no further apart than this."""

_HEAD_ROWS: Final = 100
"""The oldest ready tasks of a queue and priority that are looked at for types nobody serves."""

_IN_HISTORY: Final = TERMINAL - {TaskStatus.FAILED}


class Reading(StorePart):
    """`ports.store.TaskReader`."""

    async def get(self, task_id: UUID, max_staleness: float = 0.0) -> Task | None:
        """Return a task wherever it is."""
        arguments = (_GET, self._now(), task_id)
        rows = await self._reads.fetch_old(*arguments, staleness_seconds=max_staleness)
        if not rows:
            # One that a replica does not have yet may still be there.
            rows = await self._main.fetch(*arguments)
        return task_of(rows[0]) if rows else None

    async def page(self, which: TaskFilter, limit: int, cursor: str | None = None) -> Page:
        """Return a page of tasks, newest first. A page may be short, or even empty, and still have
        a cursor: a filter that few tasks pass is looked for in steps of bounded length.
        """
        high, low = _bounds(which)
        if cursor is not None:
            high = min(high, read_cursor(cursor))
        query = _query_for(which)
        found: list[Record] = []
        for _ in range(_SCAN_STEPS):
            floor = low
            if query is _PAGE and which != TaskFilter():
                reached = await self._reads.fetch(_FLOOR, high, low, _SCAN_ROWS)
                floor = reached[0]["id"] if reached else low
            # One more than asked for tells whether there is a next page.
            found += await self._page(query, which, high, floor, limit + 1 - len(found))
            high = floor
            if len(found) > limit:
                return Page(
                    [task_of(row) for row in found[:limit]], cursor_before(found[limit - 1]["id"])
                )
            if floor == low:
                return Page([task_of(row) for row in found])
        return Page([task_of(row) for row in found], cursor_before(high))

    async def statuses(self, ids: Sequence[UUID]) -> dict[UUID, TaskStatus]:
        """Return the status of those tasks that exist."""
        if not ids:
            return {}
        rows = await self._main.fetch(_STATUSES, ids)
        return {row["id"]: TaskStatus(row["status"]) for row in rows}

    async def queues(self) -> list[QueueState]:
        """Return every queue with its counts."""
        rows = await self._reads.fetch(_QUEUES, self._now(), COUNT_MAX)
        return queue_states([_stored_queue(row) for row in rows], await self.unplaceable())

    async def unplaceable(self) -> list[Unplaceable]:
        """Return which due tasks no live worker can take for the labels that they need."""
        rows = await self._main.fetch(_UNPLACEABLE, self._now(), HEAD_TASKS)
        return [
            Unplaceable(
                queue=row["queue"],
                labels=tuple(row["labels"]),
                count=row["count"],
                oldest_seconds=row["oldest_seconds"],
            )
            for row in rows
        ]

    async def unserved(self, waited_seconds: float) -> tuple[str, ...]:
        """Return the types of old ready tasks that no registered worker has a handler for."""
        rows = await self._main.fetch(_UNSERVED, self._now(), waited_seconds, _HEAD_ROWS)
        return tuple(row["task_type"] for row in rows)

    async def dead_letter_count(self) -> int:
        """Return the number of dead letters."""
        rows = await self._reads.fetch(_COUNT, COUNT_MAX)
        count: int = rows[0]["count"]
        return count

    async def _page(
        self, query: Query, which: TaskFilter, high: UUID, low: UUID, limit: int
    ) -> list[Record]:
        filters: tuple[Any, ...] = (
            which.task_type,
            which.stored_queues,
            which.since,
            which.until,
            which.schedule,
            which.group_key,
        )
        if query is _PAGE:
            filters = (*filters, which.status, which.ready)
        elif query is _FINISHED:
            filters = (*filters, which.status)
        return await self._reads.fetch(query, self._now(), high, low, limit, *filters)


def _stored_queue(row: Record) -> StoredQueue:
    base, labels, *counts = row[:9]
    limits = (
        Limit(concurrency=concurrency, rate=rate, burst=burst)
        for concurrency, rate, burst in (row[9:12], row[12:15])
    )
    return StoredQueue(base, tuple(labels or ()), *counts, *limits)


def _query_for(which: TaskFilter) -> Query:
    """Choose the statement with the index that suits the filter."""
    if which.ready:
        return _PAGE
    if which.status is TaskStatus.RUNNING:
        return _RUNNING
    if which.status in _IN_HISTORY and which.task_type is not None:
        return _FINISHED
    return _PAGE


def _bounds(which: TaskFilter) -> tuple[UUID, UUID]:
    """Return the highest id (excluded) and the lowest that the times of a filter allow."""
    high = _HIGHEST if which.until is None else floor_id(which.until + _CLOCKS_APART)
    low = _LOWEST if which.since is None else floor_id(which.since - _CLOCKS_APART)
    return high, low
