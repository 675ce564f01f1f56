"""Who a bearer token stands for, once everything about it was checked."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import jwt
import msgspec

from mainspring.adapters.oidc.keys import IssuerKeys
from mainspring.domain.errors import InvalidValue
from mainspring.domain.namespaces import DEFAULT_NAMESPACE, check_namespace
from mainspring.domain.values import check_name
from mainspring.ports.access import Identity, Scope
from mainspring.ports.clock import Clock

TOKEN_BYTES_MAX: Final = 8 * 1024
LEEWAY_SECONDS: Final = 30.0
"""How far the clocks of the issuer and of this machine may be apart."""

LIFETIME_SECONDS_MAX: Final = 86_400.0
"""A token that is valid for longer is refused: nobody can revoke it."""

_KEY_ID_LENGTH_MAX: Final = 200
_SUBJECT: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_SCOPE_PREFIX: Final = "mainspring:"
_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
_REQUIRED: Final = ("iss", "aud", "sub", "exp", "iat")
_NOT_RIGHT: Final = (
    jwt.PyJWTError,
    InvalidValue,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
)


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a token has to be, and where it says what it is for."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    scopes_claim: str
    namespace_claim: str
    queues_claim: str


class OidcTokens:
    """`ports.access.Tokens`."""

    def __init__(self, expected: Expected, keys: IssuerKeys, clock: Clock) -> None:
        self._expected = expected
        self._keys = keys
        self._clock = clock

    async def identity(self, token: str) -> Identity | None:
        """Return who a token stands for; None if anything about it is not right."""
        try:
            claims = await self._claims(token)
            return None if claims is None else self._identity(claims)
        except _NOT_RIGHT:
            return None

    async def renew(self) -> str:
        """Fetch the keys; return why that was not possible, or nothing."""
        await self._keys.renew()
        return self._keys.problem

    async def close(self) -> None:
        """Stop fetching keys."""
        await self._keys.close()

    async def _claims(self, token: str) -> Mapping[str, Any] | None:
        if len(token) > TOKEN_BYTES_MAX or not token.isascii():
            return None
        header = jwt.get_unverified_header(token)
        algorithm, key_id, kind = (header.get(name) for name in ("alg", "kid", "typ"))
        if algorithm not in self._expected.algorithms or "crit" in header:
            return None
        if not isinstance(key_id, str) or not 0 < len(key_id) <= _KEY_ID_LENGTH_MAX:
            return None
        if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
            return None
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            return None
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._expected.issuer,
            audience=self._expected.audience,
            # Times are checked below, by the clock of this process.
            options={
                "require": list(_REQUIRED),
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
        return claims if self._is_now(claims) else None

    def _is_now(self, claims: Mapping[str, Any]) -> bool:
        now = self._clock.now().timestamp()
        issued, ends = _moment(claims["iat"]), _moment(claims["exp"])
        # Not every issuer says from when on a token is valid.
        begins = _moment(claims.get("nbf", issued))
        return (
            begins <= now + LEEWAY_SECONDS
            and issued <= now + LEEWAY_SECONDS
            and now - LEEWAY_SECONDS < ends
            and begins < ends
            and ends - min(begins, issued) <= LIFETIME_SECONDS_MAX
        )

    def _identity(self, claims: Mapping[str, Any]) -> Identity | None:
        subject = claims["sub"]
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            return None
        namespace = claims.get(self._expected.namespace_claim, DEFAULT_NAMESPACE)
        queues = claims.get(self._expected.queues_claim)
        return Identity(
            subject=subject,
            namespace=check_namespace(namespace),
            scopes=_scopes(_words(claims.get(self._expected.scopes_claim, ""))),
            queues=None
            if queues is None
            else frozenset(check_name(queue, "queue") for queue in _words(queues)),
            expires_at=datetime.fromtimestamp(_moment(claims["exp"]), UTC),
        )


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValue("a time in the token is no number")
    return float(value)


def _words(value: object) -> Sequence[str]:
    """Return the words of a claim: separated by spaces, or in a list."""
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidValue("a claim of the token is neither text nor a list of texts")
    return words


def _scopes(words: Sequence[str]) -> frozenset[Scope]:
    return frozenset(scope for scope in Scope if f"{_SCOPE_PREFIX}{scope}" in words)
