"""Keeping leases, and taking back those that nobody keeps."""

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final

from mainspring.adapters.postgres.claim import Claiming
from mainspring.adapters.postgres.groups import Group
from mainspring.adapters.postgres.leaving import passing_over
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.domain.errors import MainspringError
from mainspring.domain.placement import base_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import ATTEMPTS_KEPT, FailureKind, LeaseRef, Renewal, Rescued
from mainspring.ports.hooks import HookPoint

_HEARTBEAT: Final = QUERIES["heartbeat"]
_WATCH: Final = QUERIES["watch"]
_LEASES_OF: Final = QUERIES["leases_of"]
_PROGRESS: Final = QUERIES["progress"]
_RESCUE: Final = QUERIES["rescue"]
_RESCUE_BESIDE: Final = passing_over(_RESCUE, "t.lease_expires_at <= (")
_UNSERVED: Final = QUERIES["put_back_unserved"]
_UNSERVED_BESIDE: Final = passing_over(_UNSERVED, "split_part(t.queue, '@', 1) = q.name")
_UNSERVED_BATCH: Final = 500
_SILENT_SECONDS: Final = 60.0
"""Whoever is silent for as long as a lease lasts by default does not come for what was admitted."""


class Leasing(Claiming):
    """`TaskStore.heartbeat`, `watch`, `leases_of`, `progress` and `rescue`."""

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        """Extend the leases that are still held."""
        answers = await self._ask(_HEARTBEAT, leases, (self._now(),), (lease_seconds,))
        await self._hooks.reach(HookPoint.HEARTBEAT_AFTER_REPLY)
        return answers

    async def watch(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        """Say which leases are held and which tasks are to be cancelled."""
        return await self._ask(_WATCH, leases, (), ())

    async def leases_of(self, worker_id: str) -> list[LeaseRef]:
        """Return every lease that a worker has."""
        rows = await self._main.fetch(_LEASES_OF, worker_id)
        return [LeaseRef(row["id"], row["fencing_token"]) for row in rows]

    async def progress(self, lease: LeaseRef, progress: str) -> bool:
        """Record progress on a running task."""
        rows = await self._main.fetch(_PROGRESS, lease.id, lease.fencing_token, progress)
        return bool(rows)

    async def rescue(self, limit: int) -> list[Rescued]:
        """Take back tasks whose lease has expired, and what was admitted for workers that left."""
        rows = await self._main.fetch(
            _RESCUE_BESIDE if self._is_leaving() else _RESCUE,
            self._now(),
            ATTEMPTS_KEPT,
            limit,
            FailureKind.LEASE_EXPIRED.value,
        )
        rescued = [Rescued(row["id"], TaskStatus(row["target"])) for row in rows]
        await self._hooks.reach(HookPoint.RESCUE_AFTER_COMMIT)
        # Else their limits would be looked at a while later.
        with suppress(MainspringError):
            freed = _groups_of([*rows, *await self._put_back_unserved()])
            if freed:
                await self.refill(freed)
        if any(task.status is TaskStatus.PENDING for task in rescued):
            self.read_from_the_beginning()
            self._announcer.ready()
        return rescued

    async def _put_back_unserved(self) -> list[Record]:
        return await self._main.fetch(
            _UNSERVED_BESIDE if self._is_leaving() else _UNSERVED,
            self._now(),
            _UNSERVED_BATCH,
            _SILENT_SECONDS,
        )

    async def _ask(
        self,
        query: Query,
        leases: Sequence[LeaseRef],
        before: tuple[Any, ...],
        after: tuple[Any, ...],
    ) -> list[Renewal]:
        if not leases:
            return []
        ordered = sorted(leases, key=attrgetter("id"))
        rows = await self._connections.leases.fetch(
            query,
            *before,
            [lease.id for lease in ordered],
            [lease.fencing_token for lease in ordered],
            *after,
        )
        cancels = {(row["id"], row["fencing_token"]): row["cancel_requested"] for row in rows}
        return [
            Renewal(
                lease.id,
                lease.fencing_token,
                held=(lease.id, lease.fencing_token) in cancels,
                cancel_requested=cancels.get((lease.id, lease.fencing_token), False),
            )
            for lease in leases
        ]


def _groups_of(rows: Sequence[Record]) -> list[Group]:
    """Return the groups in which something ended, or gave a place back."""
    return sorted(
        {(base_of(row["queue"]), row["group_key"]) for row in rows if row["group_key"] is not None}
    )
