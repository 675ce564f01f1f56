"""How many tasks of a queue, and of each group of it, run at once: counted a second time."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from mainspring.adapters.memory.row import Row
from mainspring.domain.limits import QueueLimits
from mainspring.domain.placement import base_of
from mainspring.domain.status import TaskStatus

Place = tuple[str, str | None]
"""A queue and one of its groups; None: the whole queue."""


class Places:
    """The places that running tasks take, and how many there are."""

    def __init__(self) -> None:
        self.limits: dict[str, QueueLimits] = {}
        self.taken: Counter[Place] = Counter()
        self._groups: dict[UUID, str] = {}

    def submitted(self, task_id: UUID, group_key: str | None) -> None:
        """Keep the group that was asked for, whatever the store makes of it."""
        self._groups[task_id] = group_key or ""

    def changed(self, row: Row, before: TaskStatus, after: TaskStatus) -> None:
        """Take a place, or give it back."""
        change = (after is TaskStatus.RUNNING) - (before is TaskStatus.RUNNING)
        for place in self._places(row):
            self.taken[place] += change

    def overfull(self, row: Row) -> Iterator[tuple[Place, int, int]]:
        """Yield the places of a task of which more are taken than there are, with both numbers."""
        for place, most in self._limited(row):
            if self.taken[place] > most:
                yield place, self.taken[place], most

    def is_full(self, row: Row) -> bool:
        """Whether a limit was met."""
        return any(self.taken[place] == most for place, most in self._limited(row))

    def _limited(self, row: Row) -> Iterator[tuple[Place, int]]:
        limits = self.limits.get(base_of(row.queue), QueueLimits())
        for place, limit in zip(self._places(row), (limits.queue, limits.group), strict=True):
            if limit.concurrency is not None:
                yield place, limit.concurrency

    def _places(self, row: Row) -> tuple[Place, Place]:
        queue = base_of(row.queue)
        return (queue, None), (queue, self._groups[row.id])
