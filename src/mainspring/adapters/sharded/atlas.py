"""The map of partitions as one process knows it, which may be older than that of the shards."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.ids import partition_of
from mainspring.domain.shards import ShardLabel, ShardMap, leaving

_LOGGER: Final = logging.getLogger("mainspring.shards")


class Atlas:
    """Knows which shard keeps which partition, and reads it again when somebody has doubts.

    The newest map of any shard counts: the move of a partition is decided by the commit in its new
    shard.
    """

    def __init__(self, shards: Sequence[Shard], shard_map: ShardMap) -> None:
        self._shards = tuple(shards)
        self.map = shard_map
        self.moving: frozenset[int] = frozenset()
        """Partitions that their shard refuses for now, as far as this process knows."""

        self._labels: dict[int, ShardLabel] = {}
        self._is_short = max(shard_map.owners) >= len(self._shards)
        self._asked = 0
        self._served = 0
        self._lock = asyncio.Lock()

    def labels(self) -> list[ShardLabel]:
        """Return what each shard said last of itself."""
        return [*self._labels.values()]

    def number_of(self, task_id: UUID) -> int:
        """Return the shard of a task or a schedule; raises `StoreUnavailable` for one that this
        process was not told of.
        """
        number = self.map.shard_of(task_id)
        if number < len(self._shards):
            return number
        raise StoreUnavailable(
            f"partition {partition_of(task_id)} has moved to shard {number + 1}, and the "
            f"database_url of this process names {len(self._shards)} databases; start it again "
            "with all of them"
        )

    def unreachable(self) -> frozenset[int]:
        """Return the partitions of lost shards and those that are refused for now."""
        if (
            not self.moving
            and not self._is_short
            and not any(shard.is_lost for shard in self._shards)
        ):
            return frozenset()
        here = {shard.number for shard in self._shards if not shard.is_lost}
        lost = (one for one, owner in enumerate(self.map.owners) if owner not in here)
        return self.moving.union(lost)

    def is_moving(self, task_id: UUID) -> bool:
        """Return whether the partition of a task is refused for now by the shard that keeps it."""
        return bool(self.moving) and partition_of(task_id) in self.moving

    def holds_back(self, task_id: UUID) -> bool:
        """Return whether there is no use in asking about a task now. Who asks a lost shard is told
        that it is lost.
        """
        return self.is_moving(task_id) and not self._shards[self.number_of(task_id)].is_lost

    async def refresh(self) -> None:
        """Read the map again: what is known afterwards is at least as new as this call. Callers
        that come together share one look.
        """
        self._asked += 1
        asked = self._asked
        async with self._lock:
            if self._served >= asked:
                return
            serves = self._asked
            await self._read()
            self._served = serves

    async def _read(self) -> None:
        answers = await asyncio.gather(
            *(shard.label() for shard in self._shards), return_exceptions=True
        )
        labels = [answer for answer in answers if isinstance(answer, ShardLabel)]
        for label in labels:
            if label.map.version > self.map.version:
                self.map = label.map
                self._is_short = max(label.map.owners) >= len(self._shards)
                _LOGGER.info("the map of shards has version %d now", self.map.version)
        # One that did not answer just now refuses what it refused before.
        self._labels |= {label.shard: label for label in labels}
        self.moving = leaving(self.labels(), self.map)

    def changed(self, ids: Collection[UUID], before: ShardMap) -> bool:
        """Return whether any of these is in another shard than by an earlier map."""
        return self.map is not before and any(
            self.map.shard_of(one) != before.shard_of(one) for one in ids
        )
