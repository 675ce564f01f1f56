"""Someone who pauses and edits schedules just when they are due, and what must hold then."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from mainspring.core.schedules import HISTORY_MAX, Change, Schedules
from mainspring.domain.schedule import ScheduleSpec, load_spec, nominal_times
from mainspring.ports.schedules import Tick
from simulation.network import StoreClock

EVERY: Final = 2
PAUSED: Final = "paused"
EDITED: Final = "edited"
_NEAR_SECONDS: Final = 0.03
"""A plan is on its way for about so long."""


@dataclass
class Meddler:
    """A person at work on two schedules of their own."""

    schedules: Schedules
    chance: random.Random
    pauses: list[tuple[datetime, datetime]] = field(default_factory=list)
    """From the answer to a pause until resuming was asked for."""

    edits: list[tuple[datetime, ScheduleSpec]] = field(default_factory=list)
    """When an edit was answered, and the timetable from then on."""

    async def begin(self) -> None:
        for name in (PAUSED, EDITED):
            options = {"every": EVERY, "overlap": "allow"}
            await self.schedules.create(name, Change(task_type="mail", options=options))

    async def work(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        every = EVERY
        while loop.time() < until:
            await self._until_due(PAUSED)
            await self.schedules.pause(PAUSED)
            answered = StoreClock().now()
            await asyncio.sleep(self.chance.uniform(0.0, 2 * EVERY))
            self.pauses.append((answered, StoreClock().now()))
            await self.schedules.resume(PAUSED)
            await self._until_due(EDITED)
            every = 2 * EVERY + 1 - every
            edited = await self.schedules.update(EDITED, Change(options={"every": every}))
            self.edits.append((StoreClock().now(), load_spec(edited.spec)))

    async def violations(self) -> list[str]:
        found = [
            f"I17: {tick.nominal_at} was decided at {tick.decided_at}, paused from {begin} to {end}"
            for tick in await self.schedules.history(PAUSED, HISTORY_MAX)
            for begin, end in self.pauses
            if begin < tick.decided_at < end
        ]
        ticks = await self.schedules.history(EDITED, HISTORY_MAX)
        ends = [*(at for at, _ in self.edits[1:]), None]
        for (begin, spec), end in zip(self.edits, ends, strict=True):
            for tick in ticks:
                if tick.decided_at > begin and (end is None or tick.decided_at < end):
                    found += self._of_another(tick, begin, spec)
        return found

    def _of_another(self, tick: Tick, begin: datetime, spec: ScheduleSpec) -> Iterator[str]:
        at = tick.nominal_at
        if at <= begin or list(nominal_times(spec, at, at)) != [at]:
            yield f"I16: {at} is no time of the edit of {begin}, and was decided after it"

    async def _until_due(self, name: str) -> None:
        due = (await self.schedules.get(name)).next_at
        assert due is not None
        left = (due - StoreClock().now()).total_seconds()
        await asyncio.sleep(max(0.0, left) + self.chance.uniform(0.0, _NEAR_SECONDS))
