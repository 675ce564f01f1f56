"""The tasks that failed for good."""

from itertools import islice
from uuid import UUID

from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.domain.placement import base_of
from mainspring.domain.status import Transition
from mainspring.ports.store import DeadLetterFilter, Hint


class MemoryDeadLetters:
    """`ports.store.DeadLetters` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def replay(
        self, which: DeadLetterFilter, limit: int, payload: str | None = None
    ) -> list[UUID]:
        """Reopen dead letters, their attempts counted from zero again."""
        rows = self._chosen(which, limit, taken=dict(self._tables.unique))
        for row in rows:
            row.payload = row.payload if payload is None else payload
            row.attempt_count = 0
            row.crash_count = 0
            row.completed_at = None
            row.cancel_requested = False
            row.reason = None
            row.fencing_token += 1
            self._tables.move(row, Transition.REPLAY, self._tables.now())
        if rows:
            self._tables.board.post(Hint.READY)
        return [row.id for row in rows]

    async def discard(self, which: DeadLetterFilter, limit: int, reason: str) -> list[UUID]:
        """End dead letters with a reason."""
        rows = self._chosen(which, limit)
        for row in rows:
            row.reason = reason
            self._tables.move(row, Transition.DISCARD)
        return [row.id for row in rows]

    def _chosen(
        self,
        which: DeadLetterFilter,
        limit: int,
        taken: dict[tuple[str, str], UUID] | None = None,
    ) -> list[Row]:
        """Return the dead letters that are meant; of each unique key not in `taken` the first."""
        wanted = None if which.ids is None else frozenset(which.ids)
        rows = (
            row
            for row in sorted(self._tables.dead.values(), key=lambda row: row.id.int)
            if (wanted is None or row.id in wanted)
            and (which.task_type is None or row.task_type == which.task_type)
            and (which.queues is None or base_of(row.queue) in which.queues)
            and (which.after is None or row.id > which.after)
            and (
                taken is None
                or row.unique is None
                or taken.setdefault(row.unique, row.id) == row.id
            )
        )
        return list(islice(rows, limit))
