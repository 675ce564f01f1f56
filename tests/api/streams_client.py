"""Opens many streams and holds them: python streams_client.py PORT KEY TASK COUNT.

Says `open N` when all have begun and `closed N` when the server has ended them; reads nothing but
what comes.
"""

import asyncio
import resource
import sys


class Stream(asyncio.Protocol):
    """One stream: it counts when it begins and when it ends."""

    def __init__(self, request: bytes, counts: "Counts") -> None:
        self._request = request
        self._counts = counts
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._is_open and b"retry:" in data:
            self._is_open = True
            self._counts.change(opened=1)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._counts.change(closed=1)


class Counts:
    """How many streams have begun and ended."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.opened = 0
        self.closed = 0
        self.changed = asyncio.Event()

    def change(self, *, opened: int = 0, closed: int = 0) -> None:
        self.opened += opened
        self.closed += closed
        self.changed.set()

    async def reach(self, name: str, count: int | None = None) -> None:
        while getattr(self, name) < (count or self.wanted):
            self.changed.clear()
            await self.changed.wait()


async def hold(port: int, key: str, task_id: str, count: int) -> None:
    request = (
        f"GET /v1/tasks/{task_id}/events HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {key}\r\n\r\n"
    ).encode()
    counts = Counts(count)
    loop = asyncio.get_running_loop()
    for first in range(0, count, 200):
        batch = range(first, min(first + 200, count))
        await asyncio.gather(
            *(
                loop.create_connection(lambda: Stream(request, counts), "127.0.0.1", port)
                for _ in batch
            )
        )
        await counts.reach("opened", first + len(batch))
    print(f"open {counts.opened}", flush=True)
    await counts.reach("closed")
    print(f"closed {counts.closed}", flush=True)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port, key, task_id, count = sys.argv[1:]
    asyncio.run(hold(int(port), key, task_id, int(count)))


if __name__ == "__main__":
    main()
