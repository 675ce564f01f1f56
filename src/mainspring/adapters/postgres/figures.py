"""Reads for the API that people do not ask for one by one: places, backlogs, what ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.rows import backoff_of
from mainspring.domain.placement import base_of
from mainspring.domain.status import TaskStatus
from mainspring.ports.figures import Ended
from mainspring.ports.store import Backlog, Place

_QUEUE_NAMES: Final = QUERIES["queue_names"]
_PLACES: Final = QUERIES["places"]
_BACKLOGS: Final = QUERIES["backlogs"]
_FINISHED: Final = QUERIES["finished_since"]
_NOW: Final = QUERIES["store_now"]
_COUNTERS: Final = QUERIES["counters"]


class Figuring(StorePart):
    """The rest of `ports.store.TaskReader`, and `ports.figures.Figures`."""

    async def places(self, ids: Sequence[UUID]) -> dict[UUID, Place]:
        """Return where those of the tasks are that exist."""
        if not ids:
            return {}
        return {
            row["id"]: Place(
                base_of(row["queue"]),
                TaskStatus(row["status"]),
                row["worker_id"],
                row["fencing_token"],
                row["attempt_count"],
                backoff_of(row["backoff_kind"], row["backoff"]),
            )
            for row in await self._main.fetch(_PLACES, ids)
        }

    async def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        return [row["name"] for row in await self._main.fetch(_QUEUE_NAMES)]

    async def backlogs(self, bound: int) -> list[Backlog]:
        """Return what is due, by queue and priority."""
        rows = await self._main.fetch(_BACKLOGS, self._now(), bound)
        return [Backlog(*row) for row in rows]

    async def ended_between(
        self,
        after: datetime,
        upto: datetime,
        late_bounds: Sequence[float],
        long_bounds: Sequence[float],
    ) -> list[Ended]:
        """Return what ended in a span of time, summed up."""
        rows = await self._main.fetch(_FINISHED, after, upto, late_bounds, long_bounds)
        return [Ended(*row) for row in rows]

    async def store_now(self) -> datetime:
        """Return the time of the store's clock."""
        moment: datetime = (await self._main.fetch(_NOW, self._now()))[0]["now"]
        return moment

    async def leases_expired(self) -> int:
        """Return how many leases were ever taken back."""
        rows = await self._main.fetch(_COUNTERS, "leases_expired")
        count: int = rows[0]["value"] if rows else 0
        return count
