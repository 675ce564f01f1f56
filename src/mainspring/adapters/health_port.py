"""A port on which a process without an API says how it is.

It understands as much HTTP as probes need: one GET or HEAD a connection, of two paths. It reads a
bounded head in a bounded time on a bounded number of connections, and tells nobody anything but
the states of parts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from mainspring.domain.errors import AddressInUse

HEAD_BYTES_MAX: Final = 8192
HEAD_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 32

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class Answer(NamedTuple):
    """What a probe is told."""

    is_well: bool
    body: Mapping[str, object]


Look = Callable[[], Awaitable[Answer]]
_ALIVE: Final = Answer(is_well=True, body={"status": "ok", "parts": {}})


@asynccontextmanager
async def health_port(host: str, port: int, ready: Look) -> AsyncIterator[int]:
    """Answer probes for the time of the block and yield the port: ``/health/live`` while the
    process works, ``/health/ready`` as `ready` says.

    Raises `AddressInUse`.
    """
    asked = _Probes(ready)
    try:
        server = await asyncio.start_server(asked.serve, host, port, limit=HEAD_BYTES_MAX)
    except OSError as error:
        raise AddressInUse(
            f"the health port cannot listen on {host} port {port} ({error.strerror or error}); "
            "stop what uses it, or choose another with --health-port or MAINSPRING_HEALTH_PORT"
        ) from None
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


class _Probes:
    """The connections that are open."""

    def __init__(self, ready: Look) -> None:
        self._ready = ready
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection. Clients that go away are nobody's problem."""
        self._open += 1
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                if self._open <= CONNECTIONS_MAX:
                    async with asyncio.timeout(HEAD_SECONDS):
                        await self._answer(reader, writer)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            status, body = 400, b'{"status":"bad request"}'
            method = b""
        else:
            method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
            path = rest.partition(b" ")[0].partition(b"?")[0]
            status, body = await self._found(method, path)
        writer.write(_head_of(status, len(body)) + (b"" if method == b"HEAD" else body))
        await writer.drain()

    async def _found(self, method: bytes, path: bytes) -> tuple[int, bytes]:
        if path not in {b"/health/live", b"/health/ready"}:
            return 404, b'{"status":"not found"}'
        if method not in {b"GET", b"HEAD"}:
            return 405, b'{"status":"method not allowed"}'
        answer = _ALIVE if path == b"/health/live" else await self._ready()
        body = json.dumps(answer.body, separators=(",", ":")).encode()
        return (200 if answer.is_well else 503), body


def _head_of(status: int, length: int) -> bytes:
    again = "retry-after: 1\r\n" if status == 503 else ""  # noqa: PLR2004 - its name is beside it
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
        f"content-length: {length}\r\ncache-control: no-store\r\n{again}connection: close\r\n\r\n"
    ).encode()
