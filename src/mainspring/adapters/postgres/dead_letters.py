"""The tasks that failed for good."""

from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.ports.store import DeadLetterFilter

_REPLAY: Final = QUERIES["replay"]
_DISCARD: Final = QUERIES["discard"]


class DeadLettering(StorePart):
    """`ports.store.DeadLetters`."""

    async def replay(
        self, which: DeadLetterFilter, limit: int, payload: str | None = None
    ) -> list[UUID]:
        """Reopen dead letters, their attempts counted from zero again."""
        rows = await self._main.fetch(
            _REPLAY,
            self._now(),
            which.ids,
            which.task_type,
            limit,
            payload,
            which.after,
            which.queues,
            True,  # noqa: FBT003 - by place
        )
        if rows:
            self._announcer.ready()
        return sorted(row["id"] for row in rows)

    async def discard(self, which: DeadLetterFilter, limit: int, reason: str) -> list[UUID]:
        """End dead letters with a reason."""
        rows = await self._main.fetch(
            _DISCARD,
            self._now(),
            which.ids,
            which.task_type,
            limit,
            reason,
            which.after,
            which.queues,
            False,  # noqa: FBT003 - by place
        )
        return sorted(row["id"] for row in rows)
