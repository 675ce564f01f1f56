"""A TCP proxy that can stop passing bytes on, in either direction, without closing anything; that
can keep them for a while and deliver them late; and that can lose the answer to what was done.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

_DONE: Final = re.compile(
    rb"C\x00\x00\x00.(INSERT|UPDATE|DELETE|SELECT|MERGE) [0-9 ]+\x00", re.DOTALL
)
"""In an answer of PostgreSQL: a statement has been carried out."""

_PARSED: Final = re.compile(rb"P....([^\x00]*)\x00([^\x00]*)", re.DOTALL)
_BOUND: Final = re.compile(rb"B....[^\x00]*\x00([^\x00]*)\x00", re.DOTALL)
_OURS: Final = b"mainspring."
"""In every statement of the product, and in none that its driver makes by itself."""

_COMMITTED: Final = b"Z\x00\x00\x00\x05I"
"""At the end of an answer of PostgreSQL: and no transaction is open."""


class Talk:
    """What is known of one connection to PostgreSQL."""

    def __init__(self) -> None:
        self._ours: set[bytes] = set()
        self.is_ours = False
        """Whether what was asked last is a statement of the product."""

        self.is_dead = False
        """Nothing passes any more."""

    def hear(self, data: bytes) -> None:
        """Take note of what the client sends."""
        if (parsed := _PARSED.match(data)) is not None and _OURS in parsed[2]:
            self._ours.add(parsed[1])
        if (bound := _BOUND.search(data)) is not None:
            self.is_ours = bound[1] in self._ours


class Proxy:
    """Passes connections on to a server until it is told to swallow what they carry."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._talks: set[Talk] = set()
        self._open = {"requests": asyncio.Event(), "replies": asyncio.Event()}
        self.release()
        self.swallow_requests = False
        self.swallow_replies = False
        self.swallow_statements = False
        """Connections come up, and die with their first statement."""

        self.swallowed = asyncio.Event()
        self.lose_replies = 0
        """So many of the next answers that say that something was committed are lost, with their
        connections."""

        self.lost = asyncio.Event()
        self.chance = random.Random(0)
        """Decides how much of such an answer still arrives."""

    def hold(self, what: str) -> None:
        """Keep `requests` or `replies` until `release`; nothing is lost, it only comes late."""
        self._open[what].clear()

    def release(self) -> None:
        """Deliver what was held, and pass on what comes."""
        for each in self._open.values():
            each.set()

    def forget(self) -> None:
        """Let all connections that there are die without a word, as when the other machine does."""
        for talk in self._talks:
            talk.is_dead = True

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        talk = Talk()
        self._talks.add(talk)
        for pipe in (
            self._pipe(reader, far_writer, "requests", talk),
            self._pipe(far_reader, writer, "replies", talk),
        ):
            task = asyncio.create_task(pipe)
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def close(self) -> None:
        self.release()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: str, talk: Talk
    ) -> None:
        try:
            while data := await reader.read(65536):
                await self._open[what].wait()
                if what == "requests" and self.swallow_statements and data[:1] in (b"P", b"Q"):
                    talk.is_dead = True
                if talk.is_dead or getattr(self, f"swallow_{what}"):
                    self.swallowed.set()
                    continue
                if what == "requests":
                    talk.hear(data)
                elif talk.is_ours and self._is_to_be_lost(data):
                    writer.write(data[: self.chance.randrange(len(data))])
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def _is_to_be_lost(self, data: bytes) -> bool:
        if not self.lose_replies or not data.endswith(_COMMITTED) or not _DONE.search(data):
            return False
        self.lose_replies -= 1
        self.lost.set()
        return True


@asynccontextmanager
async def proxy_to(dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Run a proxy to the server of a URL; yields it and the URL through it."""
    url = urlsplit(dsn)
    assert url.hostname is not None
    assert url.port is not None
    proxy = Proxy(url.hostname, url.port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, f"postgresql://{url.username}:{url.password}@127.0.0.1:{port}{url.path}"
    finally:
        server.close()
        await proxy.close()
