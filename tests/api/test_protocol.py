"""What HTTP itself allows and the API does not."""

import asyncio

import httpx
import pytest

from api.conftest import Api
from api.test_bad_input import raw

GOOD = b'{"task_type":"t"}'


def head(key: str, *more: str, method: str = "POST", path: str = "/v1/tasks") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: x",
        f"authorization: Bearer {key}",
        "content-type: application/json",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def count(api: Api) -> int:
    async with await api.client() as client:
        return len((await client.get("/v1/tasks")).json()["tasks"])


async def test_lengths_that_do_not_fit(api: Api) -> None:
    key = await api.key()
    # Less than announced, and then nothing more.
    short = await raw(api, head(key, "content-length: 100") + GOOD, end=True)
    assert not short or b" 400 " in short
    # Chunks that end before the last one.
    chunk = b"%x\r\n%s\r\n" % (len(GOOD), GOOD)
    open_end = head(key, "transfer-encoding: chunked") + chunk
    answer = await raw(api, open_end, end=True)
    assert not answer or b" 400 " in answer
    # A length that is no number, or negative, or both a length and chunks.
    for lines in (
        ("content-length: x",),
        ("content-length: -1",),
        ("content-length: 5, 6",),
        ("content-length: 5", "transfer-encoding: chunked"),
    ):
        answer = await raw(api, head(key, *lines) + chunk + b"0\r\n\r\n")
        assert b" 400 " in answer, lines
    assert await count(api) == 0
    # More than announced is the beginning of another request, and no good one.
    answer = await raw(api, head(key, f"content-length: {len(GOOD)}") + GOOD + b"xyz\r\n\r\n")
    assert answer.count(b"HTTP/1.1 201") <= 1
    assert await count(api) <= 1


async def test_methods_and_headers_that_mean_something_elsewhere(api: Api) -> None:
    key = await api.key()
    for method, status in (("TRACE", b" 405 "), ("CONNECT", b" 40"), ("PUT", b" 405 ")):
        answer = await raw(api, head(key, "content-length: 0", method=method))
        assert status in answer[:40], method
        assert key.encode() not in answer
    async with await api.client() as client:
        made = await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})
        path = f"/v1/tasks/{made.json()['task_id']}"
        for name in ("x-http-method-override", "x-method-override", "x-http-method"):
            seen = await client.get(path, headers={name: "DELETE"})
            assert (seen.status_code, seen.json()["status"]) == (200, "pending")
            seen = await client.post(path, headers={name: "GET"})
            assert seen.status_code == 405
        queried = await client.get("/v1/tasks", params={"api_key": key})
        assert queried.status_code == 422
    async with api.with_key(None) as nobody:
        assert (await nobody.get("/v1/tasks", params={"api_key": key})).status_code == 401
        two = [("authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]
        assert (await nobody.get("/v1/tasks", headers=two)).status_code == 401


async def test_a_websocket_is_not_spoken(client: httpx.AsyncClient) -> None:
    headers = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-key": "x" * 16,
        "sec-websocket-version": "13",
    }
    answer = await client.get("/v1/tasks", headers=headers)
    assert answer.status_code == 200


async def test_a_byte_a_second_is_too_slow(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.api.limits.BODY_SECONDS", 2.0)
    key = await api.key()
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(head(key, "content-length: 100"))
        answer = asyncio.create_task(reader.read(4096))
        # All of it would take 100 s.
        async with asyncio.timeout(5):
            while not answer.done():
                writer.write(b" ")
                await asyncio.wait([answer], timeout=1.0)
        assert b" 408 " in answer.result()
    finally:
        writer.close()
    async with await api.client() as client:
        assert (await client.post("/v1/tasks", json={"task_type": "t"})).status_code == 201
