"""Queues' switches and limits, and the register of workers."""

from datetime import timedelta

import msgspec

from mainspring.adapters.memory.tables import Tables
from mainspring.domain.limits import GROUP_LIMITS_MAX, Limit, QueueLimits, too_many_group_limits
from mainspring.ports.store import Hint
from mainspring.ports.workers import WorkerState


class MemoryQueues:
    """`ports.queues.Queues` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def pause(self, queue: str) -> None:
        """Let no task of the queue start until it is resumed."""
        self._tables.queues[queue] = True

    async def resume(self, queue: str) -> None:
        """Let the tasks of the queue start again."""
        self._tables.queues[queue] = False
        self._tables.board.post(Hint.READY)

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both."""
        known = await self.limits(queue)
        self._set(
            queue,
            msgspec.structs.replace(
                known,
                queue=known.queue if whole is None else whole,
                group=known.group if group is None else group,
            ),
        )

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or none."""
        known = await self.limits(queue)
        groups = {key: own for key, own in known.groups.items() if key != group_key}
        if limit is not None:
            if len(groups) >= GROUP_LIMITS_MAX:
                raise too_many_group_limits()
            groups[group_key] = limit
        self._set(queue, msgspec.structs.replace(known, groups=groups))

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue."""
        return self._tables.limits.get(queue, QueueLimits())

    def _set(self, queue: str, limits: QueueLimits) -> None:
        self._tables.limits[queue] = limits
        self._tables.queues.setdefault(queue, False)
        self._tables.board.post(Hint.READY)


class MemoryWorkers:
    """`ports.store.Workers` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def beat(self, worker: WorkerState) -> None:
        """Record that a worker is alive, and how it is."""
        now = self._tables.now()
        known = self._tables.workers.get(worker.worker_id)
        started_at = now if known is None else known.started_at
        self._tables.workers[worker.worker_id] = msgspec.structs.replace(
            worker, started_at=started_at, seen_at=now
        )

    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has drained."""
        self._tables.workers.pop(worker_id, None)

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are registered, by name."""
        return [self._tables.workers[name] for name in sorted(self._tables.workers)]

    async def forget_workers(self, silent_seconds: float) -> int:
        """Remove the workers that were not seen for so long."""
        limit = self._tables.now() - timedelta(seconds=silent_seconds)
        silent = [
            name
            for name, worker in self._tables.workers.items()
            if worker.seen_at is not None and worker.seen_at < limit
        ]
        for name in silent:
            del self._tables.workers[name]
        return len(silent)
