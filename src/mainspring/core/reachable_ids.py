"""Ids of new tasks in parts of the store that answer."""

from uuid import UUID

from mainspring.domain.ids import PARTITIONS, moved_into
from mainspring.ports.clock import IdSource
from mainspring.ports.parts import Divided


class ReachableIds:
    """`ports.clock.IdSource` that avoids what is lost, for tasks that may be anywhere. Where a task
    with a key belongs is decided by the key (`domain.ids.deciding_key`), whatever is lost.
    """

    def __init__(self, ids: IdSource, store: Divided) -> None:
        self._ids = ids
        self._store = store

    def task_id(self, key: str | None = None) -> UUID:
        """Return a new task id."""
        made = self._ids.task_id(key)
        lost = self._store.lost_partitions() if key is None else ()
        if not lost or len(lost) == PARTITIONS:
            return made
        return moved_into(made, [one for one in range(PARTITIONS) if one not in lost])

    def worker_id(self) -> str:
        """Return a name for this process start."""
        return self._ids.worker_id()
