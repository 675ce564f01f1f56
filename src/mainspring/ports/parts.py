"""A store that is divided into parts, each of which can fail by itself."""

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
        """Return the partitions whose part does not answer now."""
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
