"""Who asks, and what they may do: the same for every transport.

A key is ``ms_<id>_<secret>``: the id finds it, the secret proves it. Only the SHA-256 of the secret
is stored; it has 256 random bits, so it needs no slow hash.
"""

import base64
import hashlib
import hmac
import re
from collections import OrderedDict
from datetime import datetime
from typing import Final

import msgspec

from mainspring.domain.errors import Forbidden, Unauthenticated
from mainspring.domain.namespaces import (
    DEFAULT_NAMESPACE,
    namespace_of,
    plain_queue,
    stored_queue,
)
from mainspring.ports.access import Access, KeyRecord, Scope
from mainspring.ports.clock import Clock

SECRET_BYTES: Final = 32
ID_BYTES: Final = 8
TRUST_SECONDS: Final = 2.0
"""How long an answer about a key is believed: a revoked one is refused this much later."""

_CACHED_MAX: Final = 10_000
_KEY: Final = re.compile(r"ms_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_KEY_LENGTH_MAX: Final = 100
_REFUSAL: Final = "give a valid API key in the header `Authorization: Bearer ms_...`"
_NOBODY: Final = hashlib.sha256(b"").digest()


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks."""

    key_id: str
    name: str
    namespace: str = DEFAULT_NAMESPACE
    scopes: frozenset[Scope] = frozenset(Scope)
    queues: frozenset[str] | None = None
    """The queues of the namespace it may touch; None: all."""

    def require(self, scope: Scope) -> None:
        """Raise `Forbidden` without this scope."""
        if scope not in self.scopes:
            has = ", ".join(sorted(self.scopes)) or "none"
            raise Forbidden(f"this needs a key with the scope {scope}; yours has {has}")

    def may_use(self, queue: str) -> bool:
        """Whether it may touch a queue of its namespace."""
        return self.queues is None or queue in self.queues

    def stored_queue(self, queue: str) -> str:
        """Return the stored name of a queue, or raise `Forbidden` if the key is not for it."""
        if not self.may_use(queue):
            raise Forbidden(f"this key is not for the queue {queue!r}", field="queue")
        return stored_queue(self.namespace, queue)

    def sees(self, stored: str) -> bool:
        """Whether a stored queue is one of its own."""
        return namespace_of(stored) == self.namespace and self.may_use(plain_queue(stored))


ANONYMOUS: Final = Principal(key_id="anonymous", name="anonymous")
"""Who asks where authentication is off: the owner of the machine."""


def new_key(
    name: str,
    random_bytes: bytes,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    scopes: tuple[Scope, ...],
    queues: tuple[str, ...] | None = None,
    expires_at: datetime | None = None,
) -> tuple[str, KeyRecord]:
    """Return a new key as its owner gets it, once, and as it is stored."""
    key_id = random_bytes[:ID_BYTES].hex()
    secret = base64.urlsafe_b64encode(random_bytes[ID_BYTES : ID_BYTES + SECRET_BYTES])
    record = KeyRecord(
        key_id=key_id,
        digest=hashlib.sha256(secret.rstrip(b"=")).digest(),
        name=name,
        namespace=namespace,
        scopes=scopes,
        queues=queues,
        expires_at=expires_at,
    )
    return f"ms_{key_id}_{secret.rstrip(b'=').decode()}", record


class Authenticator:
    """Tells who asks. An answer is believed for `TRUST_SECONDS`, so that a busy caller costs
    nothing and a revoked key is soon refused.
    """

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        self._principals: dict[str, tuple[KeyRecord, Principal]] = {}

    async def principal(self, key: str | None) -> Principal:
        """Return who holds a key, or raise `Unauthenticated`: in one way, whatever is wrong."""
        match = _KEY.fullmatch(key) if key and len(key) <= _KEY_LENGTH_MAX else None
        if match is None:
            raise Unauthenticated(f"no one is authenticated; {_REFUSAL}")
        key_id, secret = match.groups()
        record = await self._record(key_id)
        digest = _NOBODY if record is None else record.digest
        is_theirs = hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), digest)
        if record is None or not is_theirs or not record.is_valid:
            raise Unauthenticated(f"no one is authenticated; {_REFUSAL}")
        return self._principal_of(record)

    async def still_valid(self, key_ids: set[str]) -> set[str]:
        """Return those of the keys that are valid now, asking the store."""
        found = await self._access.keys(sorted(key_ids))
        return {record.key_id for record in found if record.is_valid}

    async def _record(self, key_id: str) -> KeyRecord | None:
        now = self._clock.monotonic()
        known = self._known.get(key_id)
        if known is not None and now - known[0] < TRUST_SECONDS:
            return known[1]
        record = await self._access.find_key(key_id)
        self._known[key_id] = (now, record)
        self._known.move_to_end(key_id)
        if len(self._known) > _CACHED_MAX:
            forgotten, _ = self._known.popitem(last=False)
            self._principals.pop(forgotten, None)
        return record

    def _principal_of(self, record: KeyRecord) -> Principal:
        known = self._principals.get(record.key_id)
        if known is not None and known[0] == record:
            return known[1]
        principal = Principal(
            key_id=record.key_id,
            name=record.name,
            namespace=record.namespace,
            scopes=frozenset(record.scopes),
            queues=None if record.queues is None else frozenset(record.queues),
        )
        self._principals[record.key_id] = (record, principal)
        return principal
