"""The keys of an issuer by their id: kept, renewed now and then, and used through its outages."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jwt

from mainspring.adapters.oidc.sources import KeySource, KeysUnavailable
from mainspring.ports.clock import Clock

FRESH_SECONDS: Final = 600.0
"""Older keys are fetched anew in the background, so that those the issuer gave up are forgotten."""

STALE_SECONDS: Final = 3600.0
"""How long keys are used when the issuer cannot be reached."""

AGAIN_SECONDS: Final = 60.0
"""How often an id that is not known may make us ask the issuer: anybody can invent one."""

FIRST_AGAIN_SECONDS: Final = 5.0
"""The same while there are no keys at all."""

_KEYS_MAX: Final = 100
_RSA_BITS_MIN: Final = 2048
_LOGGER: Final = logging.getLogger("mainspring.oidc")
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}

Keys = Mapping[tuple[str, str], jwt.PyJWK]


class _Held(NamedTuple):
    keys: Keys
    fetched_at: float


class IssuerKeys:
    """Finds keys. Never asks the issuer more than once at a time."""

    def __init__(self, source: KeySource, algorithms: Sequence[str], clock: Clock) -> None:
        self._source = source
        self._algorithms = algorithms
        self._clock = clock
        self._held: _Held | None = None
        self._asked_at: float | None = None
        self._asking: asyncio.Task[None] | None = None
        self.problem = ""
        """Why the last try to get the keys failed; empty if it did not."""

    async def find(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of an id if it fits the algorithm, asking the issuer where that is due."""
        at = (key_id, algorithm)
        held = self._usable()
        if held is None or at not in held.keys:
            await self.renew()
            held = self._usable()
        elif self._clock.monotonic() - held.fetched_at > FRESH_SECONDS:
            self._ask()
        return None if held is None else held.keys.get(at)

    async def renew(self) -> None:
        """Ask the issuer unless that was done just now, and wait for what comes of it."""
        asking = self._ask()
        if asking is not None:
            await asyncio.shield(asking)

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def _usable(self) -> _Held | None:
        held = self._held
        if held is None or self._clock.monotonic() - held.fetched_at > STALE_SECONDS:
            return None
        return held

    def _ask(self) -> "asyncio.Task[None] | None":
        if self._asking is not None and not self._asking.done():
            return self._asking
        now = self._clock.monotonic()
        pause = FIRST_AGAIN_SECONDS if self._held is None else AGAIN_SECONDS
        if self._asked_at is not None and now - self._asked_at < pause:
            return None
        self._asked_at = now
        self._asking = asyncio.create_task(self._fetch(), name="mainspring-oidc-keys")
        return self._asking

    async def _fetch(self) -> None:
        try:
            keys = usable_keys(await self._source.read(), self._algorithms)
        except KeysUnavailable as error:
            self.problem = str(error)
            _LOGGER.warning("the keys of the token issuer could not be fetched: %s", error)
            return
        self.problem = ""
        self._held = _Held(keys, self._clock.monotonic())


def usable_keys(document: Mapping[str, Any], algorithms: Sequence[str]) -> Keys:
    """Return the keys of a key set, or raise `KeysUnavailable` if it has none of use."""
    keys = dict(_each_key(document, algorithms))
    if not keys:
        raise KeysUnavailable("the key set has no key that fits oidc_algorithms")
    return keys


def _each_key(
    document: Mapping[str, Any], algorithms: Sequence[str]
) -> Iterator[tuple[tuple[str, str], jwt.PyJWK]]:
    """Yield each key once for each algorithm that it is for."""
    given = document.get("keys")
    for entry in given[:_KEYS_MAX] if isinstance(given, list) else ():
        key_id = entry.get("kid") if isinstance(entry, dict) else None
        if not isinstance(key_id, str) or not _is_for_signatures(entry):
            continue
        for algorithm in algorithms:
            if not _fits(entry, algorithm):
                continue
            try:
                key = jwt.PyJWK.from_dict(entry, algorithm=algorithm)
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            if (
                getattr(key.key, "key_size", _RSA_BITS_MIN) >= _RSA_BITS_MIN
                or entry["kty"] != "RSA"
            ):
                yield (key_id, algorithm), key


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops")
    may_verify = operations is None or (isinstance(operations, list) and "verify" in operations)
    # One with its private part has been given away: everybody can sign with it.
    return entry.get("use", "sig") == "sig" and may_verify and "d" not in entry


def _fits(entry: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key is of the kind that an algorithm takes, and not set aside for another one."""
    if entry.get("alg", algorithm) != algorithm:
        return False
    if algorithm == "EdDSA":
        return entry.get("kty") == "OKP" and entry.get("crv") == "Ed25519"
    if algorithm in _CURVES:
        return entry.get("kty") == "EC" and entry.get("crv") == _CURVES[algorithm]
    return entry.get("kty") == "RSA"
