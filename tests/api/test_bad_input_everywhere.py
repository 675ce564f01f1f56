"""Every bad input at every place, three times: refused, and nothing is left broken."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx
import psutil
import pytest

from api.bad_inputs import BODIES, PLACES, REFUSED, Place, field_cases, filled, query_cases
from api.conftest import Api, started

TIMES = 3
GROWTH_BYTES_MAX = 50 * 1024 * 1024


@pytest.fixture
async def api(database: str) -> AsyncIterator[Api]:
    async with started(database, graphql=True) as running:
        yield running


def fields_of(api: Api, place: Place) -> set[str]:
    """The fields that the body of a place may have, as the OpenAPI document says."""
    for route in api.application.router.routes:
        known, asked = route.segments, place.path.strip("/").split("/")
        is_it = len(known) == len(asked) and all(
            part.startswith("{") or part == word for part, word in zip(known, asked, strict=True)
        )
        if is_it and route.method == place.method and route.body is not None:
            kind = route.body
            names = set(kind.__struct_encode_fields__)
            if not place.in_list:
                return names
            return fields_of(api, PLACES["submit"])
    raise AssertionError(place.path)


class Connection:
    """A connection that is kept, without the costs of a client that knows everything."""

    def __init__(self, api: Api, key: str) -> None:
        self._host, port = api.url.removeprefix("http://").split(":")
        self._port = int(port)
        self._head = f"host: x\r\nauthorization: Bearer {key}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + (body or b""))
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0])
        data = await reader.readexactly(length)
        if b"connection: close" in answer:
            self.close()
        return int(answer.split()[1]), data

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def send(connection: Connection, place: Place, body: object) -> int:
    """The status, or that of the one task of a batch."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    # Of the processor: how long it takes is also up to whatever else the machine does.
    began = time.monotonic()
    status, answer = await connection.ask(place.method, place.path, data)
    assert time.monotonic() - began < 1.0
    if place.in_list and status == 207:
        status = json.loads(answer)["results"][0]["status"]
    if status in REFUSED:
        assert len(answer) < 3000
        assert b"Traceback" not in answer
    return status


async def check_still_well(connection: Connection) -> None:
    for name, place in PLACES.items():
        status = await send(connection, place, place.sent(place.body))
        assert status in place.fine, (name, status)
    for path in (
        "/v1/tasks",
        "/v1/dead-letters",
        "/v1/schedules",
        "/v1/schedules/s/history",
        "/v1/queues",
        "/v1/workers",
        "/v1/stats",
        "/metrics",
    ):
        assert (await connection.ask("GET", path, None))[0] == 200, path


async def wrongly_answered(connection: Connection, place: Place, fields: set[str]) -> list[Any]:
    """The cases of a place that are answered in another way than they should be."""
    cases = [
        (name, filled(template, place), statuses)
        for name, (template, statuses) in BODIES.items()
        if not (name == "empty" and place.optional)
    ]
    cases += [(name, body, REFUSED) for name, body in field_cases(place, fields)]
    return [
        (place.path, name, status)
        for name, body, statuses in cases
        for _ in range(TIMES)
        if (status := await send(connection, place, body)) not in statuses
    ]


async def test_bad_bodies_and_fields_at_every_place(api: Api) -> None:
    connection = Connection(api, await api.key())
    await check_still_well(connection)
    before = memory()
    tasks = await count(connection)
    for place in PLACES.values():
        assert not await wrongly_answered(connection, place, fields_of(api, place))
    for path, query in query_cases():
        for _ in range(TIMES):
            status, _ = await connection.ask("GET", f"{path}?{urlencode(query)}", None)
            assert status in REFUSED | {431}, (path, query)
    assert await count(connection) == tasks
    await check_still_well(connection)
    assert memory() - before < GROWTH_BYTES_MAX
    assert api.application.unforeseen == 0
    connection.close()


async def test_other_types_of_bodies_at_every_place(client: httpx.AsyncClient) -> None:
    for place in PLACES.values():
        for content_type in ("text/plain", "application/json; charset=utf-16", ""):
            answer = await client.request(
                place.method, place.path, content=b"{}", headers={"content-type": content_type}
            )
            assert answer.status_code == 415


async def count(connection: Connection) -> int:
    _, answer = await connection.ask("GET", "/v1/tasks?limit=200", None)
    return len(json.loads(answer)["tasks"])


def memory() -> int:
    gc.collect()
    used: int = psutil.Process().memory_info().rss
    return used
