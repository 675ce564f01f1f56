"""The HTTP server under the application: uvicorn, with bounds on what a connection may do."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainspring.api.http import CERTIFICATE
from mainspring.api.limits import HEADER_BYTES_MAX, PATH_BYTES_MAX
from mainspring.api.tls import client_names
from mainspring.domain.errors import AddressInUse

HEAD_SECONDS: Final = 10.0
"""How long a client may take for the head of a request, its first one included."""

IDLE_SECONDS: Final = 75
DRAIN_SECONDS: Final = 5
_BACKLOG: Final = 2048
_HEAD_BYTES_MAX: Final = 4 * (HEADER_BYTES_MAX + PATH_BYTES_MAX)
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: 113\r\n\r\n"
    b'{"title":"Headers too large","status":431,"code":"headers_too_large",'
    b'"detail":"the headers are too large; send less"}'
)


class _Protocol(HttpToolsProtocol):
    """Lets go of clients that do not finish the head of a request, in time or in size, and tells
    the application who has shown a certificate.
    """

    _waiting: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0
    _certificate: tuple[str, ...] = ()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._certificate = client_names(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_head:
            return
        # Data after a head in the same piece is its body: only a head that goes on is too long.
        if self._head_bytes > _HEAD_BYTES_MAX:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._waiting is None:
            # A head that comes in one piece, as nearly all do, needs no timer.
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._certificate:
            self.scope["extensions"] = {CERTIFICATE: {"names": self._certificate}}
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _Server(uvicorn.Server):
    """A server that leaves the signals to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise `AddressInUse` with what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, because asyncio turns Nagle's algorithm off only for such: head and
    # body of an answer go in two writes, and the second would wait for what a client acknowledges
    # 40 ms later.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressInUse(
            f"the API cannot listen on {host} port {port} ({error.strerror or error}); stop what "
            "uses it, or choose another with --port or MAINSPRING_PORT"
        ) from None
    listener.setblocking(False)  # noqa: FBT003 - the socket's own way to say so
    return listener


@asynccontextmanager
async def serving(
    application: Any, listener: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve the application on a listening socket for the time of the block."""
    config = uvicorn.Config(
        application,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]), name="mainspring-http")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([running])
        listener.close()
