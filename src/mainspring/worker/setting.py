"""What every part of a worker works with."""

from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from mainspring.core.registry import Registry
from mainspring.ports.clock import Chance, Clock
from mainspring.ports.locks import Locks
from mainspring.ports.store import Store
from mainspring.worker.options import WorkerOptions


@dataclass(frozen=True, slots=True)
class Setting:
    """The world and the choices of one worker."""

    store: Store
    clock: Clock
    chance: Chance
    registry: Registry
    worker_id: str
    options: WorkerOptions
    log: FilteringBoundLogger
    locks: Locks | None = None
    """For exclusive tasks, where the app has some."""
