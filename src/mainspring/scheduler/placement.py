"""Tells operators of tasks that no worker can take for the labels that they need."""

import logging
from typing import Final

from mainspring.domain.placement import Labels
from mainspring.ports.store import TaskReader
from mainspring.scheduler.loop import Interval, Loop

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

LOOK_SECONDS: Final = 15.0
"""How often it looks. A worker is not counted on after about as long a silence."""


class PlacementWatch:
    """`core.service.Service`: one warning when a branch of a queue gets stuck, and a word when it
    goes on.
    """

    name = "placement"

    def __init__(self, reader: TaskReader, loop: Loop, *, seconds: float = LOOK_SECONDS) -> None:
        self._reader = reader
        self._loop = loop
        self._interval = Interval(seconds=seconds)
        self._told: set[tuple[str, Labels]] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.repeat(self.name, self.run_once, self._interval)

    async def run_once(self) -> int:
        """Look once; returns how many branches are stuck."""
        found = {(one.queue, one.labels): one for one in await self._reader.unplaceable()}
        for queue, labels in sorted(found.keys() - self._told):
            _LOGGER.warning(
                "%d due tasks of queue %s need %s, which no live worker with a handler for them "
                "offers; start one with --labels %s",
                found[queue, labels].count,
                queue,
                ", ".join(labels),
                ",".join(labels),
            )
        for queue, labels in sorted(self._told - found.keys()):
            _LOGGER.info(
                "the tasks of queue %s that need %s have a worker again", queue, ", ".join(labels)
            )
        self._told = set(found)
        return len(found)
