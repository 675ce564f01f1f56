"""The sharded store, put together from its parts."""

from collections.abc import Sequence
from uuid import UUID

from mainspring.adapters.sharded.directory import ShardedAccess, ShardedFigures
from mainspring.adapters.sharded.division import Division
from mainspring.adapters.sharded.operations import ShardedOperations
from mainspring.adapters.sharded.reads import ShardedReads
from mainspring.adapters.sharded.schedules import ShardedEpochs, ShardedSchedules
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.tasks import ShardedTasks
from mainspring.adapters.sharded.wakeups import ShardedWakeups
from mainspring.domain.shards import ShardMap
from mainspring.ports.store import Wakeups
from mainspring.ports.whole import WholeStore


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

    def shard_of(self, task_id: UUID) -> int:
        """Return the shard that keeps a task."""
        return self._division.map.shard_of(task_id)

    def parts(self) -> Sequence[WholeStore]:
        """Return the stores of the shards by number; they say for themselves when they are away."""
        return [shard.store for shard in self._division.shards]

    def missing(self) -> tuple[str, ...]:
        """Return the names of the shards that do not answer, or did not a moment ago."""
        return self._division.missing()

    def lost_partitions(self) -> frozenset[int]:
        """Return the partitions whose shard does not answer."""
        lost = {shard.number for shard in self._division.shards if shard.is_lost}
        owners = enumerate(self._division.map.owners) if lost else ()
        return frozenset(one for one, owner in owners if owner in lost)

    def wakeups(self) -> Wakeups:
        """Return a new listener for the hints of all shards."""
        return ShardedWakeups([shard.store.wakeups() for shard in self._division.shards])

    def announce(self) -> None:
        """Tell waiting workers that tasks are due."""
        for shard in self._division.shards:
            shard.store.announce()

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        for shard in self._division.shards:
            await shard.close()
