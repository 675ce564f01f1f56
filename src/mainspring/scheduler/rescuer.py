"""Takes back the tasks of workers that died."""

import logging
from typing import Final

from mainspring.domain.status import TaskStatus
from mainspring.ports.store import TaskStore
from mainspring.scheduler.loop import Interval, Loop

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

RESCUE_SECONDS: Final = 5.0
"""How often expired leases are looked for: what a dead worker held runs again at most this long
after its lease, not counting jitter (default)."""

_BATCH: Final = 500


class Rescuer:
    """`core.service.Service`: expired leases go back to pending, or to the dead letters."""

    name = "rescuer"

    def __init__(self, store: TaskStore, loop: Loop, *, seconds: float = RESCUE_SECONDS) -> None:
        self._store = store
        self._loop = loop
        self._interval = Interval(seconds=seconds)

    async def run(self) -> None:
        """Rescue until cancelled."""
        await self._loop.repeat(self.name, self.run_once, self._interval)

    async def run_once(self) -> int:
        """Rescue all tasks whose lease has expired by now; returns how many there were.

        Taken in batches, so that the death of a large worker is no large transaction.
        """
        count = 0
        while True:
            rescued = await self._store.rescue(_BATCH)
            count += len(rescued)
            for task in rescued:
                level = logging.ERROR if task.status is TaskStatus.FAILED else logging.WARNING
                _LOGGER.log(
                    level, "the lease of task %s expired; it is %s now", task.id, task.status
                )
            if len(rescued) < _BATCH:
                return count
