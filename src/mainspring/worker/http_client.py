"""HTTP requests that go only where the rules allow, whatever names and answers say.

Names are looked up here, once for each connection; all their addresses are checked, and the
connection is made to an address that was checked. The name stays in the Host header and in TLS.
There is no proxy, no cookie, no decompression, and a redirect is a new request that is checked as
the first one was.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any, Final

import certifi
import httpcore

from mainspring.domain.targets import Address, Target, TargetRules, literal
from mainspring.worker.exchange import Answer, Call, CallFailed

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""From a name and a port to addresses; raises `OSError` when there are none."""

CONNECTIONS_MAX: Final = 200
_KEPT_SECONDS: Final = 30.0
_KEPT_MAX: Final = 50
_ADDRESSES_TRIED: Final = 3
_CONNECT_SECONDS: Final = 5.0
"""One address that does not answer leaves time for the next."""

_Header = tuple[bytes, bytes]


class HttpClient:
    """A pool of connections under one set of rules, for one event loop."""

    def __init__(
        self, rules: TargetRules, *, resolve: Resolve | None = None, context: Any = None
    ) -> None:
        self._rules = rules
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context or trusting_context(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=_KEPT_MAX,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=GuardedBackend(rules, resolve or resolved),
        )

    async def call(self, call: Call) -> Answer:
        """Make a request and return the answer, without bounds of time of its own.

        Raises `TargetRefused`, or `CallFailed` when there is no answer.
        """
        target = call.target
        self._rules.check_host(target)
        url = httpcore.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.path.encode(),
        )
        try:
            async with self._pool.stream(
                call.method, url, headers=[*_wire_headers(call)], content=call.body or None
            ) as response:
                body, is_cut = await _read(response, call.body_max)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            what = str(error) or type(error).__name__
            raise CallFailed(f"{target.shown} did not answer: {what}") from None
        headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in response.headers
        )
        return Answer(response.status, headers, body, is_cut)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Makes connections for the pool, to addresses that were checked."""

    def __init__(self, rules: TargetRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Look a name up, check all its addresses, and connect to one of them."""
        # The scheme makes no difference for what is checked here.
        target = Target("https", host, port, "/")
        is_named = self._rules.check_host(target)
        address = literal(host)
        try:
            addresses = [address] if address else await self._resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"its name is not known ({error.strerror})") from None
        if not is_named:
            self._rules.check_addresses(target, addresses)
        failure: Exception = httpcore.ConnectError("its name has no address")
        for one in addresses[:_ADDRESSES_TRIED]:
            try:
                return await self._plain.connect_tcp(
                    str(one), port, timeout or _CONNECT_SECONDS, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: no URL leads to a socket of this machine."""
        del path, timeout, socket_options
        raise httpcore.ConnectError("requests do not go to local sockets")

    async def sleep(self, seconds: float) -> None:
        """Wait, as the pool asks for between its own attempts."""
        await self._plain.sleep(seconds)


async def resolved(host: str, port: int) -> Sequence[Address]:
    """Look a name up as the operating system does."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    texts = dict.fromkeys(str(address[0]) for *_, address in found)
    return [ip_address(text) for text in texts]


def trusting_context() -> ssl.SSLContext:
    """Return a context that trusts the authorities of the system, or the usual public ones where
    the system has none.
    """
    paths = ssl.get_default_verify_paths()
    has_system = bool(paths.cafile or paths.capath)
    return ssl.create_default_context(cafile=None if has_system else certifi.where())


def _wire_headers(call: Call) -> Iterable[_Header]:
    yield b"Host", call.target.authority.encode()
    # What is compressed would be as large as it likes once it is not.
    yield b"Accept-Encoding", b"identity"
    if call.body or call.method in ("POST", "PUT", "PATCH"):
        yield b"Content-Length", str(len(call.body)).encode()
    for name, value in call.headers:
        yield name.encode(), value.encode()


async def _read(response: httpcore.Response, body_max: int) -> tuple[bytes, bool]:
    """Read no more than is wanted; a connection with something left in it is closed."""
    body = bytearray()
    async for chunk in response.aiter_stream():
        is_cut = len(body) + len(chunk) > body_max
        body += chunk[: body_max - len(body)]
        if is_cut:
            return bytes(body), True
    return bytes(body), False
