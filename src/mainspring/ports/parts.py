"""A store that is divided into parts, each of which can fail by itself."""

from collections.abc import Collection
from typing import Protocol, Self
from uuid import UUID


class Divided(Protocol):
    """What callers need to know of the division, so that one part does not hold up the others."""

    def shard_of(self, task_id: UUID) -> int:
        """Return the part that keeps a task. What is put into one call fails together, so callers
        that repeat after an outage put tasks of one part into a call.
        """
        ...

    def missing(self) -> tuple[str, ...]:
        """Return the parts that do not answer, or did not a moment ago. What is listed, counted
        and summed then leaves out what is in them.
        """
        ...

    def lost_partitions(self) -> frozenset[int]:
        """Return the partitions whose part does not answer now, or refuses them for a moment."""
        ...

    async def settled(self, ids: Collection[UUID], seconds: float) -> bool:
        """Wait until none of these tasks is just moving from one part to another, so long at most;
        False: some still are. Afterwards `shard_of` knows where they are.
        """
        ...


class Undivided:
    """A store in one part."""

    def shard_of(self, task_id: UUID) -> int:
        """Return the only part."""
        del task_id
        return 0

    def parts(self) -> tuple[Self]:
        """Return the only part."""
        return (self,)

    def missing(self) -> tuple[str, ...]:
        """Return nothing: without its only part the store does not answer at all."""
        return ()

    def lost_partitions(self) -> frozenset[int]:
        """Return nothing, as `missing` does."""
        return frozenset()

    async def settled(self, ids: Collection[UUID], seconds: float) -> bool:
        """Return at once: there is nowhere to move to."""
        del ids, seconds
        return True
