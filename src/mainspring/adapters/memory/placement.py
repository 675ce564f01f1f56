"""Which branches of queues a worker that offers labels may claim from."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.domain.errors import InvalidValue
from mainspring.domain.namespaces import namespace_of
from mainspring.domain.placement import (
    BRANCHES_MAX,
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    Load,
    Young,
    base_of,
    can_take,
    dealt,
    labels_of,
)
from mainspring.domain.status import TaskStatus
from mainspring.ports.branches import Unplaceable
from mainspring.ports.store import ClaimRequest
from mainspring.ports.workers import WorkerState

_PATIENCE = timedelta(seconds=PATIENCE_SECONDS)


class Branches:
    """The branches of the queues, seen by workers."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def check(self, queues: Iterable[str]) -> None:
        """Raise `InvalidValue` when new branches would be too many in their namespace."""
        new = {queue for queue in queues if labels_of(queue) and queue not in self._tables.queues}
        if not new:
            return
        counts = Counter(
            namespace_of(one) for one in {*self._tables.queues, *new} if labels_of(one)
        )
        for branch in sorted(new):
            if counts[namespace_of(branch)] > BRANCHES_MAX:
                message = (
                    f"labels make another branch of the queue {base_of(branch)}, and there are "
                    f"{BRANCHES_MAX} already; use labels that others use too, and put what "
                    "differs by task into the payload"
                )
                raise InvalidValue(message, field="labels")

    def claimable(
        self, request: ClaimRequest, now: datetime
    ) -> tuple[list[str], dict[str, int], float | None]:
        """Return the branches that a worker may take all of, its share of the others, and the
        seconds until somebody has been waited for there for long enough.
        """
        whole: list[str] = []
        found: list[Young] = []
        oldest: dict[str, datetime] = {}
        for branch in sorted(self._tables.queues):
            is_meant = labels_of(branch) and can_take(request.labels, request.queues, branch)
            if not is_meant or self._tables.queues.get(base_of(branch), False):
                continue
            due = [row for row in self._due(branch, now) if row.task_type in request.task_types]
            if not due or min(row.scheduled_at for row in due) <= now - _PATIENCE:
                whole.append(branch)
                continue
            oldest[branch] = min(row.scheduled_at for row in due)
            found.append(Young(branch, len(due), tuple({row.task_type for row in due})))
        mine, shares = dealt(found, request.worker_id, request.limit, self.loads(now))
        waits = [(oldest[branch] + _PATIENCE - now).total_seconds() for branch in shares]
        return whole + mine, shares, min(waits, default=None)

    def loads(self, now: datetime) -> list[Load]:
        """Return how much is in use of each live worker that offers labels."""
        held = Counter(
            row.worker_id for row in self._tables.live.values() if row.status is TaskStatus.RUNNING
        )
        return [
            Load(
                worker.worker_id,
                worker.labels,
                worker.queues,
                worker.task_types,
                worker.slots,
                held[worker.worker_id],
            )
            for worker in self.live_workers(now)
            if worker.labels and worker.slots > 0
        ]

    def live_workers(self, now: datetime) -> list[WorkerState]:
        """Return the workers that may be counted on."""
        limit = now - timedelta(seconds=SILENT_SECONDS)
        return [
            worker
            for worker in self._tables.workers.values()
            if not worker.draining and worker.seen_at is not None and worker.seen_at > limit
        ]

    def is_placeable(self, row: Row, now: datetime) -> bool:
        """Whether a live worker has what a task needs, and a handler for it."""
        return any(
            can_take(worker.labels, worker.queues, row.queue) and row.task_type in worker.task_types
            for worker in self.live_workers(now)
        )

    def unplaceable(self, now: datetime) -> list[Unplaceable]:
        """Return which due tasks no live worker can take for the labels that they need."""
        found: dict[str, list[datetime]] = {}
        for branch in sorted(self._tables.queues):
            if labels_of(branch):
                for row in self._due(branch, now):
                    if not self.is_placeable(row, now):
                        found.setdefault(branch, []).append(row.scheduled_at)
        return [
            Unplaceable(
                queue=base_of(branch),
                labels=labels_of(branch),
                count=len(times),
                oldest_seconds=(now - min(times)).total_seconds(),
            )
            for branch, times in found.items()
        ]

    def _due(self, branch: str, now: datetime) -> list[Row]:
        return [
            row for row in self._tables.live.values() if row.queue == branch and row.is_ready(now)
        ]
