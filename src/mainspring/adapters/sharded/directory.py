"""Keys, namespaces, the audit and figures."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from mainspring.adapters.sharded.division import Division
from mainspring.adapters.sharded.part import ShardedPart
from mainspring.ports.access import ALL_RECORDS, AuditFilter, AuditRecord, KeyRecord, Namespace
from mainspring.ports.figures import Ended

_INSTANT: Final = timedelta(microseconds=1)


class ShardedAccess(ShardedPart):
    """`ports.access.Access`: keys, namespaces and what is done to them are in the first shard. A
    submission has its record in the shard of its task, so the audit is read from all of them.
    """

    async def add_key(self, key: KeyRecord) -> None:
        """Store a new key."""
        await self._division.directory.ask(lambda store: store.add_key(key))

    async def find_key(self, key_id: str) -> KeyRecord | None:
        """Return a key by its public part, valid or not."""
        return await self._division.directory.ask(lambda store: store.find_key(key_id))

    async def find_certificates(self, names: Sequence[str]) -> list[KeyRecord]:
        """Return the keys that certificates of these names prove."""
        return await self._division.directory.ask(lambda store: store.find_certificates(names))

    async def keys(self, ids: Sequence[str] | None = None) -> list[KeyRecord]:
        """Return all keys, or those of the given ids, oldest first."""
        return await self._division.directory.ask(lambda store: store.keys(ids))

    async def revoke_key(self, key_id: str) -> bool:
        """Make a key useless from now on."""
        return await self._division.directory.ask(lambda store: store.revoke_key(key_id))

    async def namespaces(self) -> list[Namespace]:
        """Return all namespaces that were set up, by name."""
        return await self._division.directory.ask(lambda store: store.namespaces())

    async def set_namespace(self, namespace: Namespace) -> None:
        """Create a namespace or give it other quotas."""
        await self._division.directory.ask(lambda store: store.set_namespace(namespace))

    async def pending_count(self, queues: Sequence[str], bound: int) -> int:
        """Count the live tasks of queues, up to a bound."""
        answers = await self._division.wherever(lambda store: store.pending_count(queues, bound))
        return min(sum(answers.values()), bound)

    async def record(self, records: Sequence[AuditRecord]) -> None:
        """Append to the audit."""
        await self._division.directory.ask(lambda store: store.record(records))

    async def audit(
        self, limit: int, which: AuditFilter = ALL_RECORDS
    ) -> list[tuple[datetime, AuditRecord]]:
        """Return the newest records of the audit, newest first. An id tells the shard, too."""
        count = len(self._division.shards)
        filters = [which] * count if which.before is None else await self._places(which)
        answers = await self._division.wherever_of(
            range(count), lambda number, store: store.audit(limit, filters[number])
        )
        found = [
            (at, number, msgspec.structs.replace(record, id=(record.id or 0) * count + number))
            for number, records in answers.items()
            for at, record in records
        ]
        found.sort(key=lambda one: (one[0], -one[1], one[2].id), reverse=True)
        return [(at, record) for at, _, record in found[:limit]]

    async def _places(self, which: AuditFilter) -> list[AuditFilter]:
        """Return for each shard what lies behind a record: in its own by the id, else by time."""
        division = self._division
        local, shard = divmod(which.before or 0, len(division.shards))
        here = msgspec.structs.replace(which, before=local)
        last = await division.shards[shard].ask(
            lambda store: store.audit(1, AuditFilter(before=local + 1))
        )
        if not last:
            return [here] * len(division.shards)
        # Of records of one instant those of the shards with the lower numbers come first.
        at = last[0][0]
        return [
            here
            if number == shard
            else msgspec.structs.replace(
                which, before=None, until=at + _INSTANT if number > shard else at
            )
            for number in range(len(division.shards))
        ]


class ShardedFigures(ShardedPart):
    """`ports.figures.Figures`."""

    def __init__(self, division: Division) -> None:
        super().__init__(division)
        self._expired: dict[int, int] = {}

    async def ended_between(
        self,
        after: datetime,
        upto: datetime,
        late_bounds: Sequence[float],
        long_bounds: Sequence[float],
    ) -> list[Ended]:
        """Return what ended in a span of time, by the clock of each shard."""
        answers = await self._division.wherever(
            lambda store: store.ended_between(after, upto, late_bounds, long_bounds)
        )
        return [ended for part in answers.values() for ended in part]

    async def store_now(self) -> datetime:
        """Return the time of the shard that is behind the others."""
        return min((await self._division.wherever(lambda store: store.store_now())).values())

    async def leases_expired(self) -> int:
        """Return how many leases were ever taken back. A lost shard counts with what it had last,
        because a count that falls looks like a new start.
        """
        self._expired |= await self._division.wherever(lambda store: store.leases_expired())
        return sum(self._expired.values())
