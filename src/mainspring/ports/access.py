"""Who may do what through the API, and what was done: keys, namespaces, audit."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec


class Scope(StrEnum):
    """What a key may be used for. No scope contains another."""

    SUBMIT = "submit"
    """Submit, cancel and move tasks."""

    READ = "read"
    """Look at tasks, queues, workers, schedules and figures."""

    WORK = "work"
    """Claim tasks, renew their leases and end them."""

    ADMIN = "admin"
    """Everything else that changes something: queues, dead letters, schedules."""


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as it is stored: without anything that could be used as one."""

    key_id: str
    digest: bytes
    """SHA-256 of the secret."""

    name: str
    namespace: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] | None = None
    """None: every queue of the namespace."""

    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    is_valid: bool = True
    """Neither revoked nor expired, by the store's clock, when it was read."""


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant and its quotas; None means without bound."""

    name: str
    pending_max: int | None = None
    """Tasks that may wait or run at a time."""

    schedules_max: int | None = None
    submit_rate: float | None = None
    """Tasks a second, over all of its keys, at each API process."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One write: who did what to which thing, from where."""

    actor: str
    """The key's id, or `anonymous` where authentication is off."""

    namespace: str
    action: str
    subject: str
    address: str
    request_id: str
    count: int = 1
    """Things that were written at once."""


class Access(Protocol):
    """Keys, namespaces and the audit."""

    async def add_key(self, key: KeyRecord) -> None:
        """Store a new key, and its namespace if it is the first one there."""
        ...

    async def find_key(self, key_id: str) -> KeyRecord | None:
        """Return a key by its public part, valid or not."""
        ...

    async def keys(self, ids: Sequence[str] | None = None) -> list[KeyRecord]:
        """Return all keys, or those of the given ids, oldest first."""
        ...

    async def revoke_key(self, key_id: str) -> bool:
        """Make a key useless from now on; False when there is none of this id."""
        ...

    async def namespaces(self) -> list[Namespace]:
        """Return all namespaces that were set up, by name."""
        ...

    async def set_namespace(self, namespace: Namespace) -> None:
        """Create a namespace or give it other quotas."""
        ...

    async def pending_count(self, queues: Sequence[str], bound: int) -> int:
        """Count the live tasks of queues, up to a bound."""
        ...

    async def record(self, records: Sequence[AuditRecord]) -> None:
        """Append to the audit. Nothing that was appended can be changed."""
        ...

    async def audit(self, limit: int) -> list[tuple[datetime, AuditRecord]]:
        """Return the newest records of the audit."""
        ...
