"""What the fault tests of schedulers share: schedules, and what their ticks must be."""

import asyncio
import time
from collections.abc import Collection
from datetime import datetime, timedelta

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.core.planning import state_of
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import NewTask
from mainspring.ports.schedules import Tick
from schedule_judge import judge

_LOOK_SECONDS = 0.05
_TASK_SECONDS = 5.0


class Timekeeping:
    """Schedules of every second and of a few, on one store."""

    def __init__(self, database_url: str) -> None:
        self.store = PostgresStore(PoolOptions(dsn=database_url, size=4))
        self.made: dict[str, datetime] = {}

    async def make(self, count: int, seconds: int = 1) -> None:
        """Make schedules of every second, or of up to so many."""
        schedules = Schedules(self.store, SystemClock(), SystemIds())
        for number in range(count):
            options = {"every": 1 + number % seconds, "overlap": "allow", "misfire": "run_all"}
            view = await schedules.create(f"s{number}", Change(task_type="work", options=options))
            assert view.created_at is not None
            self.made[f"s{number}"] = view.created_at

    async def ticks(self) -> dict[str, list[Tick]]:
        found = {}
        for name in self.made:
            stored = await self.store.get_schedule(name)
            assert stored is not None
            found[name] = await self.store.ticks(stored.id, 100_000)
        return found

    async def violations(self) -> list[str]:
        """Nominal times that are missed, doubled or invented."""
        found: list[str] = []
        for name, ticks in (await self.ticks()).items():
            stored = await self.store.get_schedule(name)
            assert stored is not None
            assert stored.next_nominal is not None
            # Read after the ticks, so the cursor may be ahead of them.
            cursor = max((tick.nominal_at for tick in ticks), default=self.made[name])
            known = [tick for tick in ticks if tick.nominal_at < cursor]
            spec = state_of(stored).spec
            found += [f"{name}: {one}" for one in judge(spec, self.made[name], cursor, known)]
        return found

    async def worst_lateness(self, after: datetime) -> float:
        """Seconds from a nominal time to its tick, the greatest of those decided after a time."""
        late = [
            (tick.decided_at - tick.nominal_at).total_seconds()
            for ticks in (await self.ticks()).values()
            for tick in ticks
            if tick.decided_at > after
        ]
        return max(late, default=0.0)

    async def now(self) -> datetime:
        return await self.store.store_time()

    async def up_to_date(self, within_seconds: float, after: datetime | None = None) -> float:
        """Wait until every schedule has a tick of the last seconds, and one that was decided after
        a time; returns how long it took.
        """
        began = time.monotonic()
        while True:
            oldest = await self.now() - timedelta(seconds=4)
            behind = [
                name
                for name, ticks in (await self.ticks()).items()
                if not ticks
                or ticks[0].nominal_at < oldest
                or (after is not None and ticks[0].decided_at <= after)
            ]
            took = time.monotonic() - began
            if not behind:
                return took
            assert took < within_seconds, f"{len(behind)} schedules are behind: {behind[:5]}"
            await asyncio.sleep(_LOOK_SECONDS)

    async def run_task(self) -> None:
        """Submit a task and wait until a worker has completed it."""
        ids = SystemIds()
        task = NewTask(id=ids.task_id(), task_type="work")
        await self.store.submit([task])
        end = time.monotonic() + _TASK_SECONDS
        while (await self.store.statuses([task.id]))[task.id] is not TaskStatus.COMPLETED:
            assert time.monotonic() < end, "the task was not run"
            await asyncio.sleep(_LOOK_SECONDS)

    async def epochs(self) -> dict[int, int]:
        return {one.partition: one.epoch for one in await self.store.partition_states()}

    async def taken_from(self, members: Collection[str], within_seconds: float) -> float:
        """Wait until somebody else owns everything; returns how long it took."""
        began = time.monotonic()
        while True:
            owners = {one.owner for one in await self.store.partition_states()}
            took = time.monotonic() - began
            if not owners & {*members, None}:
                return took
            assert took < within_seconds, f"{owners} own partitions"
            await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        await self.store.close()
