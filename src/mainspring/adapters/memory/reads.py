"""Reads for people."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from mainspring.adapters.memory.placement import Branches
from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.core.branches import StoredQueue, queue_states
from mainspring.domain.cursors import cursor_before, read_cursor
from mainspring.domain.limits import QueueLimits
from mainspring.domain.placement import NO_WORKER, base_of, can_take, labels_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.ports.branches import Unplaceable
from mainspring.ports.store import COUNT_MAX, Backlog, Page, Place, QueueState, TaskFilter


class MemoryReads:
    """`ports.store.TaskReader` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, task_id: UUID, max_staleness: float = 0.0) -> Task | None:
        """Return a task wherever it is."""
        del max_staleness
        row = self._tables.find(task_id)
        return None if row is None else self._task(row, self._tables.now())

    async def page(self, which: TaskFilter, limit: int, cursor: str | None = None) -> Page:
        """Return a page of tasks, newest first by id."""
        now = self._tables.now()
        found: list[Task] = []
        for row in self._newest_first(None if cursor is None else read_cursor(cursor)):
            if not _matches(row, which, now):
                continue
            if len(found) == limit:
                return Page(found, cursor_before(found[-1].task_id))
            found.append(self._task(row, now))
        return Page(found)

    async def statuses(self, ids: Sequence[UUID]) -> dict[UUID, TaskStatus]:
        """Return the status of those tasks that exist."""
        rows = (self._tables.find(task_id) for task_id in ids)
        return {row.id: row.status for row in rows if row is not None}

    async def queues(self) -> list[QueueState]:
        """Return every queue with its counts."""
        now = self._tables.now()
        stored = [self._stored_queue(queue, now) for queue in self._tables.queues]
        return queue_states(stored, Branches(self._tables).unplaceable(now))

    async def unplaceable(self) -> list[Unplaceable]:
        """Return which due tasks no live worker can take for the labels that they need."""
        return Branches(self._tables).unplaceable(self._tables.now())

    async def unserved(self, waited_seconds: float) -> tuple[str, ...]:
        """Return the types of old ready tasks that no registered worker has a handler for."""
        old = self._tables.now() - timedelta(seconds=waited_seconds)
        waiting = {row.task_type for row in self._tables.live.values() if row.is_ready(old)}
        served = {name for worker in self._tables.workers.values() for name in worker.task_types}
        return tuple(sorted(waiting - served))

    async def dead_letter_count(self) -> int:
        """Return the number of dead letters."""
        return min(len(self._tables.dead), COUNT_MAX)

    async def places(self, ids: Sequence[UUID]) -> dict[UUID, Place]:
        """Return where those of the tasks are that exist."""
        rows = (self._tables.find(task_id) for task_id in ids)
        return {
            row.id: Place(
                base_of(row.queue),
                row.status,
                row.worker_id,
                row.fencing_token,
                row.attempt_count,
                row.backoff,
            )
            for row in rows
            if row is not None
        }

    async def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        return sorted({base_of(queue) for queue in self._tables.queues})

    async def backlogs(self, bound: int) -> list[Backlog]:
        """Return what is due, by queue and priority."""
        now = self._tables.now()
        due: dict[tuple[str, int], list[Row]] = {}
        for row in self._tables.live.values():
            if row.is_ready(now):
                due.setdefault((base_of(row.queue), row.priority), []).append(row)
        return [_backlog(rows, bound, now) for _, rows in sorted(due.items())]

    def _newest_first(self, before: UUID | None) -> Iterator[Row]:
        ids = self._tables.ids
        end = len(ids) if before is None else bisect_left(ids, before)
        for position in range(end - 1, -1, -1):
            row = self._tables.find(ids[position])
            if row is not None:
                yield row

    def _task(self, row: Row, now: datetime) -> Task:
        task = row.task(now)
        if task.labels and task.ready and not Branches(self._tables).is_placeable(row, now):
            return msgspec.structs.replace(task, placement=NO_WORKER)
        return task

    def _stored_queue(self, queue: str, now: datetime) -> StoredQueue:
        limits = self._tables.limits.get(queue, QueueLimits())
        rows = [row for row in self._tables.live.values() if row.queue == queue]
        ready = [row.scheduled_at for row in rows if row.is_ready(now)]
        running = sum(row.status is TaskStatus.RUNNING for row in rows)
        return StoredQueue(
            base=base_of(queue),
            labels=labels_of(queue),
            paused=self._tables.queues[queue],
            ready=min(len(ready), COUNT_MAX),
            scheduled=min(len(rows) - len(ready) - running, COUNT_MAX),
            running=min(running, COUNT_MAX),
            oldest_ready_seconds=(now - min(ready)).total_seconds() if ready else None,
            workers=sum(
                can_take(worker.labels, worker.queues, queue)
                for worker in Branches(self._tables).live_workers(now)
            ),
            held=sum(
                row.is_held(now)
                for row in self._tables.live.values()
                if base_of(row.queue) == base_of(queue)
            ),
            limit=limits.queue,
            group_limit=limits.group,
        )


def _backlog(rows: Sequence[Row], bound: int, now: datetime) -> Backlog:
    times = [row.scheduled_at for row in rows if not row.is_held(now)]
    return Backlog(
        base_of(rows[0].queue),
        rows[0].priority,
        min(len(rows), bound),
        (now - min(times, default=now)).total_seconds(),
        min(len(rows) - len(times), bound),
    )


def _matches(row: Row, which: TaskFilter, now: datetime) -> bool:
    return (
        (which.status is None or row.status is which.status)
        and (which.ready is None or row.is_ready(now) is which.ready)
        and (which.task_type is None or row.task_type == which.task_type)
        and (which.stored_queues is None or base_of(row.queue) in which.stored_queues)
        and (which.group_key is None or row.group_key == which.group_key)
        and (which.schedule is None or (row.tick and row.tick.schedule) == which.schedule)
        and (which.since is None or row.created_at >= which.since)
        and (which.until is None or row.created_at < which.until)
    )
