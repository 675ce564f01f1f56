"""A TCP proxy that can stop passing bytes on, in either direction, without closing anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Proxy:
    """Passes connections on to a server until it is told to swallow what they carry."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.swallow_requests = False
        self.swallow_replies = False
        self.swallowed = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        for pipe in (
            self._pipe(reader, far_writer, "swallow_requests"),
            self._pipe(far_reader, writer, "swallow_replies"),
        ):
            task = asyncio.create_task(pipe)
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, switch: str
    ) -> None:
        try:
            while data := await reader.read(65536):
                if getattr(self, switch):
                    self.swallowed.set()
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


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
