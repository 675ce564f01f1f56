"""Who asks, and what they may do: the same for every transport.

A key is ``ms_<id>_<secret>``: the id finds it, the secret proves it. Only the SHA-256 of the secret
is stored; it has 256 random bits, so it needs no slow hash. A client certificate may take the place
of the secret, and a token of an identity provider that of the whole key.
"""

import asyncio
import base64
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from mainspring.domain.errors import Forbidden, Unauthenticated
from mainspring.domain.namespaces import (
    DEFAULT_NAMESPACE,
    namespace_of,
    plain_queue,
    stored_queue,
)
from mainspring.domain.placement import base_of
from mainspring.ports.access import Access, Identity, KeyRecord, Scope, Tokens
from mainspring.ports.clock import Clock

T = TypeVar("T")

SECRET_BYTES: Final = 32
ID_BYTES: Final = 8
TRUST_SECONDS: Final = 2.0
"""How long an answer about a key is believed: a revoked one is refused this much later."""

_CACHED_MAX: Final = 10_000
_KEY: Final = re.compile(r"ms_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_KEY_LENGTH_MAX: Final = 100
_TOKEN_DOTS: Final = 2
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

    expires_at: datetime | None = None
    """When its token ends. None for a key: that is looked up."""

    def require(self, scope: Scope) -> None:
        """Raise `Forbidden` without this scope."""
        if scope not in self.scopes:
            has = ", ".join(sorted(self.scopes)) or "none"
            raise Forbidden(f"this needs a key with the scope {scope}; yours has {has}")

    def may_use(self, queue: str) -> bool:
        """Whether it may touch a queue of its namespace."""
        return self.queues is None or queue in self.queues

    def stored_queue(self, queue: str) -> str:
        """Return the stored name of a queue, or of a branch of it, or raise `Forbidden` if the key
        is not for it.
        """
        if not self.may_use(base_of(queue)):
            raise Forbidden(f"this key is not for the queue {queue!r}", field="queue")
        return stored_queue(self.namespace, queue)

    @property
    def sees_all(self) -> bool:
        """Whether it may look at figures of the whole installation: those of the default namespace
        may, unless their key is for some queues only.
        """
        return self.namespace == DEFAULT_NAMESPACE and self.queues is None

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
    certificate: str | None = None,
) -> tuple[str, KeyRecord]:
    """Return a new key as its owner gets it, once, and as it is stored.

    One that a certificate proves has no secret, so what its owner gets is only its id.
    """
    key_id = random_bytes[:ID_BYTES].hex()
    secret = base64.urlsafe_b64encode(random_bytes[ID_BYTES : ID_BYTES + SECRET_BYTES])
    record = KeyRecord(
        key_id=key_id,
        digest=b"" if certificate else hashlib.sha256(secret.rstrip(b"=")).digest(),
        name=name,
        namespace=namespace,
        scopes=scopes,
        queues=queues,
        expires_at=expires_at,
        certificate=certificate,
    )
    return key_id if certificate else f"ms_{key_id}_{secret.rstrip(b'=').decode()}", record


class Authenticator:
    """Tells who asks. An answer is believed for `TRUST_SECONDS`, so that a busy caller costs
    nothing and a revoked key is soon refused.
    """

    def __init__(self, access: Access, clock: Clock, tokens: Tokens | None = None) -> None:
        self._access = access
        self._clock = clock
        self._tokens = tokens
        self._keys: _Recent[KeyRecord | None] = _Recent(clock)
        self._certificates: _Recent[list[KeyRecord]] = _Recent(clock)
        self._token_owners: _Recent[Principal] = _Recent(clock)
        self._principals: OrderedDict[str, tuple[KeyRecord, Principal]] = OrderedDict()

    async def admit(self, bearer: str | None, certificate: Sequence[str]) -> Principal:
        """Return who asks over a connection with a certificate of these names, if it has one.

        Whoever has a key for the certificate is who it says, and may not show another proof beside
        it: a request comes from one. A certificate without a key of its own proves nothing.
        """
        holder = await self.certificate(certificate) if certificate else None
        if holder is None:
            return await self.principal(bearer)
        if bearer is not None:
            raise _nobody()
        return holder

    async def principal(self, bearer: str | None) -> Principal:
        """Return who holds a key or a token, or raise `Unauthenticated`: in one way, whatever is
        wrong.
        """
        match = _KEY.fullmatch(bearer) if bearer and len(bearer) <= _KEY_LENGTH_MAX else None
        if match is None:
            return await self._token_owner(bearer)
        key_id, secret = match.groups()
        record = self._keys.get(key_id)
        if record is UNKNOWN:
            record = await self._keys.ask(key_id, partial(self._access.find_key, key_id))
        digest = record.digest if record is not None and record.digest else _NOBODY
        is_theirs = hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), digest)
        if record is None or not is_theirs or not record.is_valid:
            raise _nobody()
        return self._principal_of(record)

    async def certificate(self, names: Sequence[str]) -> Principal | None:
        """Return whose client certificate has these names, which are compared as they are; None
        if there is no key for any of them.

        Raises `Unauthenticated` if the key is not valid any more, or if there are several.
        """
        at = "\n".join(names)
        records = self._certificates.get(at)
        if records is UNKNOWN:
            find = partial(self._access.find_certificates, names)
            records = await self._certificates.ask(at, find)
        if not records:
            return None
        if len(records) > 1 or not records[0].is_valid:
            raise _nobody()
        return self._principal_of(records[0])

    async def still_valid(self, who: Collection[Principal]) -> set[Principal]:
        """Return those whose keys and tokens are valid now, asking the store."""
        ids = {one.key_id for one in who if one.expires_at is None}
        found = await self._access.keys(sorted(ids)) if ids else []
        valid = {record.key_id for record in found if record.is_valid}
        now = self._clock.now()
        return {
            one
            for one in who
            if (one.key_id in valid if one.expires_at is None else now < one.expires_at)
        }

    async def _token_owner(self, token: str | None) -> Principal:
        if self._tokens is None or not token or token.count(".") != _TOKEN_DOTS:
            raise _nobody()
        at = hashlib.sha256(token.encode()).hexdigest()
        owner = self._token_owners.get(at)
        if owner is UNKNOWN:
            identity = await self._tokens.identity(token)
            if identity is None:
                raise _nobody()
            owner = self._token_owners.keep(at, _owner_of(identity))
        return owner

    def _principal_of(self, record: KeyRecord) -> Principal:
        known = self._principals.get(record.key_id)
        if known is not None and (known[0] is record or known[0] == record):
            return known[1]
        principal = Principal(
            key_id=record.key_id,
            name=record.name,
            namespace=record.namespace,
            scopes=frozenset(record.scopes),
            queues=None if record.queues is None else frozenset(record.queues),
        )
        self._principals[record.key_id] = (record, principal)
        if len(self._principals) > _CACHED_MAX:
            self._principals.popitem(last=False)
        return principal


class _Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = _Unknown.UNKNOWN


class _Recent(Generic[T]):
    """Answers that are believed for `TRUST_SECONDS`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._asked: dict[str, asyncio.Future[T]] = {}

    def get(self, at: str) -> T | Literal[_Unknown.UNKNOWN]:
        """Return an answer that is recent enough."""
        known = self._known.get(at)
        if known is None or self._clock.monotonic() - known[0] >= TRUST_SECONDS:
            return UNKNOWN
        return known[1]

    async def ask(self, at: str, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer to a question, which is put once for all who want to know it now: a
        busy key would put it to the store dozens of times at the same moment.
        """
        asked = self._asked.get(at)
        if asked is None:
            asked = self._asked[at] = asyncio.ensure_future(question())
            asked.add_done_callback(partial(self._answered, at))
        # Whoever gives up does not take the others along.
        return await asyncio.shield(asked)

    def _answered(self, at: str, asked: "asyncio.Future[T]") -> None:
        del self._asked[at]
        if not asked.cancelled() and asked.exception() is None:
            self.keep(at, asked.result())

    def keep(self, at: str, answer: T) -> T:
        """Remember an answer, and return it."""
        self._known[at] = (self._clock.monotonic(), answer)
        self._known.move_to_end(at)
        if len(self._known) > _CACHED_MAX:
            self._known.popitem(last=False)
        return answer


def _owner_of(identity: Identity) -> Principal:
    # Escaped, so that what is put together from it and a worker's name has one meaning.
    subject = identity.subject.replace("%", "%25").replace(":", "%3A")
    return Principal(
        key_id=f"oidc:{subject}",
        name=identity.subject,
        namespace=identity.namespace,
        scopes=identity.scopes,
        queues=identity.queues,
        expires_at=identity.expires_at,
    )


def _nobody() -> Unauthenticated:
    return Unauthenticated(f"no one is authenticated; {_REFUSAL}")
