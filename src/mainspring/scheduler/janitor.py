"""Keeps the store small: makes and drops months of history, forgets keys and dead workers."""

import logging
from typing import Final, Protocol

import msgspec

from mainspring.ports.housekeeping import Housekeeping
from mainspring.ports.schedules import ScheduleStore
from mainspring.ports.workers import Workers
from mainspring.scheduler.loop import Interval, Loop

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

_KEYS_BATCH: Final = 5000
_TICKS_BATCH: Final = 5000


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept."""

    history_days: float = 30.0
    """Finished tasks, after they finished. They go by whole months, so up to a month later. The
    ticks of schedules are kept as long."""

    key_days: float = 7.0
    """Idempotency keys of tasks that are not live any more."""

    silent_seconds: float = 180.0
    """Workers that are not heard of: three leases by default."""

    months_ahead: int = 3
    """Months of history that are made before they are needed: a scheduler may be down so long."""


class Yard(Housekeeping, Workers, ScheduleStore, Protocol):
    """What the janitor needs of the store."""


class Janitor:
    """`core.service.Service`: everything that is due now and then and hurts nobody if it is late.

    Nothing depends on it being punctual: tasks that finish in a month that was not made are kept
    in the rest, and a worker that is forgotten registers again with its next beat.
    """

    name = "janitor"

    def __init__(self, yard: Yard, loop: Loop, keep: Keep, *, seconds: float = 60.0) -> None:
        self._yard = yard
        self._loop = loop
        self._keep = keep
        self._interval = Interval(seconds=seconds)

    async def run(self) -> None:
        """Clean up until cancelled."""
        await self._loop.repeat(self.name, self.run_once, self._interval)

    async def run_once(self) -> int:
        """Do everything that is due by now; returns the number of things made or removed."""
        made = await self._yard.prepare_history(self._keep.months_ahead)
        dropped = await self._yard.drop_history(self._keep.history_days)
        keys = await self._forget_keys()
        ticks = await self._forget_ticks()
        workers = await self._yard.forget_workers(self._keep.silent_seconds)
        if made:
            _LOGGER.info("made the history of %s", ", ".join(made))
        if dropped:
            _LOGGER.info("dropped the history of %s", ", ".join(dropped))
        if workers:
            _LOGGER.warning("forgot %d workers that were silent for too long", workers)
        return len(made) + len(dropped) + keys + workers + ticks

    async def _forget_keys(self) -> int:
        count = 0
        while True:
            forgotten = await self._yard.forget_keys(self._keep.key_days, _KEYS_BATCH)
            count += forgotten
            if forgotten < _KEYS_BATCH:
                return count

    async def _forget_ticks(self) -> int:
        count = 0
        while True:
            forgotten = await self._yard.forget_ticks(self._keep.history_days, _TICKS_BATCH)
            count += forgotten
            if forgotten < _TICKS_BATCH:
                return count
