"""As much HTTP as the load needs, at a tenth of the cost of a whole client: the machine that is
asked is the one that asks.
"""

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ANSWER_SECONDS = 10.0

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    """What a server said."""

    status: int
    text: str

    @property
    def is_good(self) -> bool:
        """Whether it did what it was asked for."""
        return self.status < 300  # noqa: PLR2004 - the protocol's own number

    @property
    def value(self) -> Any:
        """The JSON in it."""
        return json.loads(self.text)


class Broken(Exception):
    """There was no answer."""


class Http:
    """Connections that are kept, to any number of servers."""

    def __init__(self, key: str = "") -> None:
        self._key = key
        self._free: dict[str, list[_Connection]] = {}

    async def ask(self, method: str, url: str, value: object = None) -> Answer:
        """Ask once; raises `Broken` when there is no answer."""
        parts = urlsplit(url)
        body = b"" if value is None else json.dumps(value).encode()
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"authorization: Bearer {self._key}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._exchange(parts.netloc, head.encode() + body)
        except (OSError, EOFError, TimeoutError) as error:
            raise Broken(f"{type(error).__name__}: {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        for connections in self._free.values():
            for _, writer in connections:
                writer.close()
        self._free.clear()

    async def _exchange(self, place: str, request: bytes) -> Answer:
        free = self._free.setdefault(place, [])
        reader, writer = free.pop() if free else await _connect(place)
        is_kept = False
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
            text = (await reader.readexactly(length)).decode()
            is_kept = "connection: close" not in head
            return Answer(int(head.split(" ", 2)[1]), text)
        finally:
            if is_kept:
                free.append((reader, writer))
            else:
                writer.close()


async def _connect(place: str) -> _Connection:
    host, _, port = place.partition(":")
    return await asyncio.open_connection(host, int(port), limit=16 * 2**20)
