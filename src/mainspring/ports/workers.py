"""The register of living workers, by the rules of `ports.store`."""

from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.domain.priority import Level


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process as it describes itself and as its heartbeats show it."""

    worker_id: str
    hostname: str
    pid: int
    task_types: tuple[str, ...] = ()
    queues: tuple[str, ...] | None
    lanes: tuple[Level, ...] | None
    labels: tuple[str, ...] = ()
    slots: int
    busy: int = 0
    draining: bool = False
    started_at: datetime | None = None
    seen_at: datetime | None = None


class Workers(Protocol):
    """The register of living workers. It informs people; ownership of tasks is by lease alone."""

    async def beat(self, worker: WorkerState) -> None:
        """Record that a worker is alive, and how it is."""
        ...

    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has drained."""
        ...

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are registered."""
        ...

    async def forget_workers(self, silent_seconds: float) -> int:
        """Remove the workers that were not seen for so long; returns how many."""
        ...
