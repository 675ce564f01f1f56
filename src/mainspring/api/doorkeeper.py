"""Who may come in: the host that was meant, the origin it comes from, the key, the scope."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from mainspring.api.errors import WrongHost
from mainspring.api.limits import Headers
from mainspring.api.routes import Route
from mainspring.core.access import ANONYMOUS, Authenticator, Principal
from mainspring.core.following import Stay
from mainspring.domain.errors import Forbidden, MainspringError, Unauthenticated
from mainspring.ports.clock import Clock

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_CHECK_SECONDS: Final = 2.0


class Doorkeeper:
    """Lets requests in. Without authentication only those that this machine's user can have meant:
    a page of some other site cannot, neither by its origin nor by a name that it made point here.
    """

    def __init__(
        self, authenticator: Authenticator | None, clock: Clock, *, hosts: frozenset[str]
    ) -> None:
        self._authenticator = authenticator
        self._clock = clock
        self._hosts = hosts
        self._streams: dict[Principal, set[Stay]] = {}
        self._checker: asyncio.Task[None] | None = None

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._streams.values()))

    def check_host(self, headers: Headers) -> None:
        """Refuse a request for another host or from another origin, where no key protects."""
        if self._authenticator is not None:
            return
        host = headers.one(b"host") or ""
        if _name_of(f"//{host}") not in self._hosts:
            raise WrongHost("this server is not the host that the request names")
        origin = headers.one(b"origin")
        if origin is not None and _name_of(origin) not in self._hosts:
            raise Forbidden("a page of another site may not use this server")

    async def admit(
        self, headers: Headers, route: Route, certificate: Sequence[str] = ()
    ) -> Principal:
        """Return who asks if they may use the route. `certificate` has the names in that of the
        client, if it showed one.
        """
        if route.scope is None or self._authenticator is None:
            return ANONYMOUS
        who = await self._authenticator.admit(_key_in(headers), certificate)
        who.require(route.scope)
        return who

    @contextmanager
    def stream(self, who: Principal) -> Iterator[Stay]:
        """Keep an open stream: its stay is over once its key is not valid any more."""
        stay = Stay()
        self._streams.setdefault(who, set()).add(stay)
        if self._authenticator is not None and (self._checker is None or self._checker.done()):
            self._checker = asyncio.create_task(self._check(), name="mainspring-keys")
        try:
            yield stay
        finally:
            others = self._streams.get(who, set())
            others.discard(stay)
            if not others:
                self._streams.pop(who, None)

    async def close(self) -> None:
        """End every stream."""
        for streams in self._streams.values():
            for stay in streams:
                stay.end()
        if self._checker is not None:
            self._checker.cancel()
            await asyncio.wait([self._checker])

    async def _check(self) -> None:
        while self._streams and self._authenticator is not None:
            await self._clock.sleep(_CHECK_SECONDS)
            with suppress(MainspringError):
                valid = await self._authenticator.still_valid(set(self._streams))
                for who in self._streams.keys() - valid:
                    for stay in self._streams[who]:
                        stay.end()


def _key_in(headers: Headers) -> str | None:
    given = headers.all(b"authorization")
    if len(given) > 1:
        raise Unauthenticated("two headers Authorization are given; give one")
    scheme, _, key = (given[0].decode("latin-1") if given else "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _name_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
