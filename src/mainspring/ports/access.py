"""Who may do what through the API, and what was done: keys, namespaces, audit."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

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
    """SHA-256 of the secret; empty where a certificate takes its place."""

    name: str
    namespace: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] | None = None
    """None: every queue of the namespace."""

    certificate: str | None = None
    """The name in a client certificate that proves it, instead of a secret."""

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
    """The key's id, `oidc:` and the subject of a token, or `anonymous` without authentication."""

    namespace: str
    action: str
    subject: str
    address: str
    request_id: str
    count: int = 1
    """Things that were written at once."""

    task_ids: tuple[UUID, ...] = ()
    """The tasks that were submitted; for anything else the subject says it."""

    id: int | None = None
    """Its place in the audit, when it was read from there."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of the audit; what is None is not asked for."""

    namespace: str | None = None
    actor: str | None = None
    since: datetime | None = None
    before: int | None = None
    """Only those whose id is smaller: the next page after the record of that id."""

    until: datetime | None = None
    """Only those from before this time."""


ALL_RECORDS: Final = AuditFilter()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a bearer token of an identity provider stands for."""

    subject: str
    namespace: str
    scopes: frozenset[Scope]
    queues: frozenset[str] | None
    expires_at: datetime


class Tokens(Protocol):
    """Bearer tokens that somebody else issues."""

    async def identity(self, token: str) -> Identity | None:
        """Return who a token stands for; None if anything about it is not right."""
        ...

    async def renew(self) -> str:
        """Fetch the issuer's keys; return why that was not possible, or nothing."""
        ...

    async def close(self) -> None:
        """Stop fetching keys."""
        ...


class Access(Protocol):
    """Keys, namespaces and the audit."""

    async def add_key(self, key: KeyRecord) -> None:
        """Store a new key, and its namespace if it is the first one there."""
        ...

    async def find_key(self, key_id: str) -> KeyRecord | None:
        """Return a key by its public part, valid or not."""
        ...

    async def find_certificates(self, names: Sequence[str]) -> list[KeyRecord]:
        """Return the keys that certificates of these names prove: of each name the one that was
        not revoked, else the newest.
        """
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

    async def audit(
        self, limit: int, which: AuditFilter = ALL_RECORDS
    ) -> list[tuple[datetime, AuditRecord]]:
        """Return the newest records of the audit, newest first."""
        ...
