"""Servers on loopback that answer, or misbehave, as a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Write = Callable[[bytes], None]


@dataclass
class Request:
    """What came in."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server that gives its answers in turn, and the last one again and again."""

    port: int = 0
    answers: list[bytes] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    endless: bytes = b""
    """Sent over and over after the answer, until the other side has had enough."""

    pause: float = 0.0
    """Between two of those, in seconds."""

    sent: int = 0
    served: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.served.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            while True:
                self.requests.append(await read_request(reader))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
                while self.endless:
                    writer.write(self.endless)
                    await writer.drain()
                    self.sent += len(self.endless)
                    if self.pause:
                        await asyncio.wait_for(reader.read(), self.pause * 100)
                        break
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.rstrip().split("\r\n")
    headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in rest)}
    assert len(headers) == len(rest), "a header was sent twice"
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(line, headers, body)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def site(*answers: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """Run a server for a while."""
    running = Site(answers=list(answers))
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        for writer in running.served:
            writer.transport.abort()
        await server.wait_closed()
        # The transports tell their sockets in the next round of the loop.
        for writer in running.served:
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
