"""The sharded store, put together from its parts."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from mainspring.adapters.sharded.directory import ShardedAccess, ShardedFigures
from mainspring.adapters.sharded.division import Division
from mainspring.adapters.sharded.operations import ShardedOperations
from mainspring.adapters.sharded.reads import ShardedReads
from mainspring.adapters.sharded.schedules import ShardedEpochs, ShardedSchedules
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.tasks import ShardedTasks
from mainspring.adapters.sharded.wakeups import ShardedWakeups
from mainspring.domain.shards import ShardLabel, ShardMap
from mainspring.ports.clock import Clock
from mainspring.ports.store import Wakeups
from mainspring.ports.whole import WholeStore

LOOK_SECONDS: Final = 1.0
"""How often a process looks whether partitions have moved, if nothing tells it sooner."""


class ShardedStore(
    ShardedTasks,
    ShardedReads,
    ShardedOperations,
    ShardedSchedules,
    ShardedEpochs,
    ShardedAccess,
    ShardedFigures,
):
    """`ports.store.Store` on several of them, with `ports.access.Access` and
    `ports.figures.Figures`.
    """

    def __init__(self, shards: Sequence[Shard], shard_map: ShardMap) -> None:
        self._division = Division(shards, shard_map)
        ShardedTasks.__init__(self, self._division)
        ShardedFigures.__init__(self, self._division)
        self._looking: asyncio.Task[None] | None = None

    def follow_map(self, clock: Clock) -> None:
        """Look for a new map of the shards every second until the store is closed."""
        self._looking = asyncio.get_running_loop().create_task(
            self._look(clock), name="mainspring-map"
        )

    def shard_of(self, task_id: UUID) -> int:
        """Return the shard that keeps a task; raises `StoreUnavailable` for one that is not among
        those of this process.
        """
        return self._division.atlas.number_of(task_id)

    async def settled(self, ids: Collection[UUID], seconds: float) -> bool:
        """Wait until none of these is just moving to another shard, so long at most."""
        return await self._division.settled(ids, seconds)

    def parts(self) -> Sequence[WholeStore]:
        """Return the stores of the shards by number; they say for themselves when they are away."""
        return [shard.store for shard in self._division.shards]

    def missing(self) -> tuple[str, ...]:
        """Return the names of the shards that do not answer, or did not a moment ago."""
        return self._division.missing()

    def lost_partitions(self) -> frozenset[int]:
        """Return the partitions whose shard does not answer, or refuses them for now."""
        return self._division.atlas.unreachable()

    def labels(self) -> list[ShardLabel]:
        """Return what each shard said last of itself, which was within the last second or two if it
        answers.
        """
        return self._division.atlas.labels()

    def wakeups(self) -> Wakeups:
        """Return a new listener for the hints of all shards."""
        return ShardedWakeups([shard.store.wakeups() for shard in self._division.shards])

    def announce(self) -> None:
        """Tell waiting workers that tasks are due."""
        for shard in self._division.shards:
            shard.store.announce()

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for shard in self._division.shards:
            await shard.close()

    async def _look(self, clock: Clock) -> None:
        while True:
            await clock.sleep(LOOK_SECONDS)
            await self._division.atlas.refresh()
