"""Admitting what stands in line, before each claim."""

from collections import Counter
from datetime import datetime

from mainspring.adapters.memory.groups import Counts
from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.domain.limits import QueueLimits
from mainspring.domain.placement import base_of, can_take, labels_of
from mainspring.domain.priority import lane_after, lane_of
from mainspring.ports.store import ClaimRequest


class Admission:
    """The gates, as the claims of workers open them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def admit(self, request: ClaimRequest, now: datetime) -> float | None:
        """Let wait to be claimed what the limits leave room for; returns the seconds until there
        may be more, if something is held or comes.
        """
        waits = [self._admit_at(queue, request, now) for queue in self._served(request)]
        return min((wait for wait in waits if wait is not None), default=None)

    def settle(self, request: ClaimRequest, now: datetime) -> None:
        """Let the buckets fill from now on, since what was admitted has started."""
        for queue in self._served(request):
            counts = Counts(queue, self._tables.live.values())
            self._tables.gates.settle(queue, self._limits(queue), counts, now)

    def _served(self, request: ClaimRequest) -> list[str]:
        """Return the queues that a worker serves and at whose gates there is something to do."""
        tables = self._tables
        lines = {line.queue for line in tables.gates.lines}
        return [
            queue
            for queue, paused in sorted(tables.queues.items())
            if not paused
            and not labels_of(queue)
            and (request.queues is None or queue in request.queues)
            and (queue in lines or not self._limits(queue).queue.is_none)
        ]

    def _admit_at(self, queue: str, request: ClaimRequest, now: datetime) -> float | None:
        tables = self._tables
        limits = self._limits(queue)
        if not limits.queue.is_none:
            for row in tables.waiting.of_base(queue):
                if row.group_key is None:
                    tables.hold(row)
            self._count_running(queue)
        lined = [
            entry.row
            for line, entries in tables.gates.lines.items()
            if line.queue == queue
            for entry in entries
        ]
        takeable = [row for row in lined if self._is_takeable(row, request, now)]
        counts = Counts(queue, tables.live.values())
        stock = Counter(
            row.priority for row in counts.waiting if self._is_takeable(row, request, now)
        )
        room = {row.priority: max(0, request.limit - stock[row.priority]) for row in takeable}
        for row in tables.gates.choose(queue, limits, counts, takeable, room, now):
            tables.admit(row)
        held = {row.group_key or "" for row in takeable if not row.is_admitted}
        waits = [tables.gates.wait(queue, limits, held, now)]
        waits += [
            (row.scheduled_at - now).total_seconds() for row in lined if not row.is_ready(now)
        ]
        return min((wait for wait in waits if wait), default=None)

    def _count_running(self, queue: str) -> None:
        """What started before the queue had a limit counts as well."""
        for row in self._tables.live.values():
            if row.group_key is None and base_of(row.queue) == queue:
                row.group_key = ""

    def _is_takeable(self, row: Row, request: ClaimRequest, now: datetime) -> bool:
        if not row.is_ready(now) or row.task_type not in request.task_types:
            return False
        if labels_of(row.queue) and not can_take(request.labels, request.queues, row.queue):
            return False
        if request.lanes is None:
            return True
        waited = (now - row.scheduled_at).total_seconds()
        lanes = {lane_of(lane) for lane in request.lanes}
        return lane_after(row.priority, waited, self._tables.waiting.limit_seconds) in lanes

    def _limits(self, queue: str) -> QueueLimits:
        return self._tables.limits.get(queue, QueueLimits())
