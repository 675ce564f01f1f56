"""Keys, namespaces and the audit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.ports.access import (
    ALL_RECORDS,
    AuditFilter,
    AuditRecord,
    KeyRecord,
    Namespace,
    Scope,
)

_ADD_KEY: Final = QUERIES["add_key"]
_FIND_KEYS: Final = QUERIES["find_keys"]
_FIND_CERTIFICATES: Final = QUERIES["find_certificates"]
_REVOKE_KEY: Final = QUERIES["revoke_key"]
_NAMESPACES: Final = QUERIES["namespaces"]
_SET_NAMESPACE: Final = QUERIES["set_namespace"]
_PENDING: Final = QUERIES["pending_count"]
_RECORD: Final = QUERIES["record_audit"]
_AUDIT: Final = QUERIES["read_audit"]


class Accessing(StorePart):
    """`ports.access.Access`."""

    async def add_key(self, key: KeyRecord) -> None:
        """Store a new key, and its namespace if it is the first one there."""
        await self._main.fetch(
            _ADD_KEY,
            key.key_id,
            key.digest or None,
            key.name,
            key.namespace,
            [scope.value for scope in key.scopes],
            key.queues,
            key.expires_at,
            key.certificate,
        )

    async def find_key(self, key_id: str) -> KeyRecord | None:
        """Return a key by its public part, valid or not."""
        found = await self.keys([key_id])
        return found[0] if found else None

    async def find_certificates(self, names: Sequence[str]) -> list[KeyRecord]:
        """Return the keys that certificates of these names prove."""
        return [_key_of(row) for row in await self._main.fetch(_FIND_CERTIFICATES, names)]

    async def keys(self, ids: Sequence[str] | None = None) -> list[KeyRecord]:
        """Return all keys, or those of the given ids, oldest first."""
        return [_key_of(row) for row in await self._main.fetch(_FIND_KEYS, ids)]

    async def revoke_key(self, key_id: str) -> bool:
        """Make a key useless from now on."""
        return bool(await self._main.fetch(_REVOKE_KEY, key_id))

    async def namespaces(self) -> list[Namespace]:
        """Return all namespaces that were set up, by name."""
        return [Namespace(**dict(row)) for row in await self._main.fetch(_NAMESPACES)]

    async def set_namespace(self, namespace: Namespace) -> None:
        """Create a namespace or give it other quotas."""
        await self._main.fetch(
            _SET_NAMESPACE,
            namespace.name,
            namespace.pending_max,
            namespace.schedules_max,
            namespace.submit_rate,
        )

    async def pending_count(self, queues: Sequence[str], bound: int) -> int:
        """Count the live tasks of queues, up to a bound."""
        count: int = (await self._main.fetch(_PENDING, queues, bound))[0]["count"]
        return count

    async def record(self, records: Sequence[AuditRecord]) -> None:
        """Append to the audit."""
        if records:
            columns = zip(*(_columns(record) for record in records), strict=True)
            await self._main.fetch(_RECORD, *(list(column) for column in columns))

    async def audit(
        self, limit: int, which: AuditFilter = ALL_RECORDS
    ) -> list[tuple[datetime, AuditRecord]]:
        """Return the newest records of the audit, newest first."""
        rows = await self._main.fetch(
            _AUDIT, limit, which.namespace, which.actor, which.since, which.before, which.until
        )
        return [(row["at"], _record_of(row)) for row in rows]


def _columns(record: AuditRecord) -> tuple[str | int, ...]:
    return (
        record.actor,
        record.namespace,
        record.action,
        record.subject,
        record.address,
        record.request_id,
        record.count,
    )


def _record_of(row: Record) -> AuditRecord:
    values = {name: row[name] for name in AuditRecord.__struct_fields__}
    return AuditRecord(**values | {"task_ids": tuple(row["task_ids"] or ())})


def _key_of(row: Record) -> KeyRecord:
    return KeyRecord(
        key_id=row["key_id"],
        digest=row["digest"] or b"",
        name=row["name"],
        namespace=row["namespace"],
        scopes=tuple(map(Scope, row["scopes"])),
        queues=None if row["queues"] is None else tuple(row["queues"]),
        certificate=row["certificate"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        is_valid=row["is_valid"],
    )
