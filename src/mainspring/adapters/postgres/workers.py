"""The register of workers."""

from typing import Final

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.domain.priority import Level
from mainspring.ports.workers import WorkerState

_BEAT: Final = QUERIES["beat"]
_LEAVE: Final = QUERIES["leave"]
_WORKERS: Final = QUERIES["workers"]
_FORGET: Final = QUERIES["forget_workers"]


class Registering(StorePart):
    """`ports.store.Workers`."""

    async def beat(self, worker: WorkerState) -> None:
        """Record that a worker is alive, and how it is."""
        await self._connections.leases.fetch(
            _BEAT,
            self._now(),
            worker.worker_id,
            worker.hostname,
            worker.pid,
            worker.task_types,
            worker.queues,
            None if worker.lanes is None else [lane.value for lane in worker.lanes],
            worker.slots,
            worker.busy,
            worker.draining,
            worker.labels,
        )

    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has drained."""
        await self._main.fetch(_LEAVE, worker_id)

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are registered, by name."""
        rows = await self._main.fetch(_WORKERS)
        return [
            WorkerState(
                worker_id=row["worker_id"],
                hostname=row["hostname"],
                pid=row["pid"],
                task_types=tuple(row["task_types"]),
                queues=None if row["queues"] is None else tuple(row["queues"]),
                lanes=None if row["lanes"] is None else tuple(map(Level, row["lanes"])),
                slots=row["slots"],
                busy=row["busy"],
                draining=row["draining"],
                labels=tuple(row["labels"]),
                started_at=row["started_at"],
                seen_at=row["seen_at"],
            )
            for row in rows
        ]

    async def forget_workers(self, silent_seconds: float) -> int:
        """Remove the workers that were not seen for so long."""
        return len(await self._main.fetch(_FORGET, self._now(), silent_seconds))
