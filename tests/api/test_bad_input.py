"""The bad inputs of RELIABILITY 4.2: a stated 4xx, soon, and nothing is left broken."""

import asyncio
import json
import os
import zlib
from typing import Any

import httpx
import psutil
import pytest

from api.conftest import Api

DEEP = 100_000
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "brace": b"{",
    "list": b"[]",
    "null": b"null",
    "text": b'"x"',
    "trailing comma": b'{"task_type":"t",}',
    "byte order mark": b'\xef\xbb\xbf{"task_type":"t"}',
    "utf-16": '{"task_type":"t"}'.encode("utf-16"),
    "invalid utf-8": b'{"task_type":"t","payload":{"a":"\xff"}}',
    "overlong utf-8": b'{"task_type":"t","payload":{"a":"\xc0\x80"}}',
    "two values": b'{"task_type":"t"}{"task_type":"t"}',
    "key twice": b'{"task_type":"t","task_type":"u"}',
    "escaped key twice": b'{"task_type":"t","payload":{"a":1,"\\u0061":2}}',
    "deep lists": b'{"task_type":"t","payload":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "deep objects": b'{"task_type":"t","payload":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "1000 deep": b'{"task_type":"t","payload":{"a":' + b"[" * 1000 + b"]" * 1000 + b"}}",
    "66 deep": b'{"task_type":"t","payload":{"a":' + b"[" * 66 + b"]" * 66 + b"}}",
    "nan": b'{"task_type":"t","payload":{"a":NaN}}',
    "infinity": b'{"task_type":"t","payload":{"a":Infinity}}',
    "minus infinity": b'{"task_type":"t","payload":{"a":-Infinity}}',
    "1e999": b'{"task_type":"t","payload":{"a":1e999}}',
    "1e130000": b'{"task_type":"t","payload":{"a":1e130000}}',
    "1e-999": b'{"task_type":"t","payload":{"a":1e-999}}',
    "4301 digits": b'{"task_type":"t","payload":{"a":' + b"1" * 4301 + b"}}",
    "65 digits": b'{"task_type":"t","payload":{"a":' + b"1" * 65 + b"}}",
    "too many decimals": b'{"task_type":"t","payload":{"a":0.12345678901234567891}}',
    "nul": b'{"task_type":"t","payload":{"a":"\\u0000"}}',
    "high surrogate": b'{"task_type":"t","payload":{"a":"\\ud800"}}',
    "low surrogate": b'{"task_type":"t","payload":{"a":"\\udc00"}}',
    "raw control": b'{"task_type":"t","payload":{"a":"\x01"}}',
    "a million keys": b'{"task_type":"t","payload":{'
    + b",".join(b'"%d":1' % n for n in range(80_000))
    + b"}}",
}
FIELDS: dict[str, dict[str, Any]] = {
    "empty name": {"task_type": ""},
    "spaces": {"task_type": "   "},
    "dots": {"task_type": "../../x"},
    "newline": {"task_type": "a\nb"},
    "ansi": {"task_type": "\x1b[2J"},
    "right to left": {"task_type": "a\u202eb"},
    "long name": {"task_type": "a" * 201},
    "no name": {"task_type": None},
    "number for name": {"task_type": 5},
    "sql": {"queue": "'; DROP TABLE mainspring.tasks; --"},
    "payload list": {"payload": []},
    "payload text": {"payload": "x"},
    "payload too big": {"payload": {"a": "x" * 262_144}},
    "big key": {"payload": {"k" * 1_000_000: 1}},
    "marks": {"task_type": "e" + "\u0301" * 100_000},
    "priority -1": {"priority": -1},
    "priority 11": {"priority": 11},
    "priority -2^31": {"priority": -(2**31)},
    "priority 2^31": {"priority": 2**31},
    "priority 2^63": {"priority": 2**63},
    "priority 2^64": {"priority": 2**64},
    "priority text": {"priority": "5"},
    "priority true": {"priority": True},
    "priority 1.5": {"priority": 1.5},
    "retries -1": {"max_retries": -1},
    "retries 2^31": {"max_retries": 2**31},
    "timeout 0": {"timeout": 0},
    "timeout -1": {"timeout": -1},
    "timeout 1e308": {"timeout": 1e308},
    "timeout text": {"timeout": "30"},
    "delay -1": {"delay": -1},
    "delay 100 years": {"delay": 100 * 365 * 86400},
    "year 0": {"scheduled_at": "0000-01-01T00:00:00Z"},
    "year 1 +14": {"scheduled_at": "0001-01-01T00:00:00+14:00"},
    "year 9999 -12": {"scheduled_at": "9999-12-31T23:59:59-12:00"},
    "year 10000": {"scheduled_at": "10000-01-01T00:00:00Z"},
    "bc": {"scheduled_at": "-0044-03-15T00:00:00Z"},
    "instant infinity": {"scheduled_at": "infinity"},
    "24 o'clock": {"scheduled_at": "2027-01-01T24:00:00Z"},
    "60 seconds": {"scheduled_at": "2027-01-01T00:00:60Z"},
    "29 february": {"scheduled_at": "2027-02-29T00:00:00Z"},
    "no offset": {"scheduled_at": "2027-01-01T00:00:00"},
    "offset 99": {"scheduled_at": "2027-01-01T00:00:00+99:99"},
    "epoch": {"scheduled_at": 1_800_000_000},
    "1e15": {"scheduled_at": 1e15},
    "two times": {"scheduled_at": "2027-01-01T00:00:00Z", "delay": 1},
    "backoff": {"retry_backoff": "sometimes"},
    "backoff object": {"retry_backoff": {"kind": "linear", "base": -1}},
    "backoff unknown": {"retry_backoff": {"kind": "linear", "x": 1}},
    "key empty": {"key": ""},
    "two keys": {"key": "k", "unique_key": "u"},
    "group key empty": {"group_key": ""},
    "unique key newline": {"unique_key": "a\nb"},
    "key 256": {"key": "k" * 256},
    "key 16 kB": {"key": "k" * 16384},
    "key newline": {"key": "a\nb"},
    "status": {"status": "completed"},
    "token": {"fencing_token": 9},
    "worker": {"worker_id": "w"},
    "attempts": {"attempt_count": 5},
    "id": {"task_id": "00000000-0000-7000-8000-000000000000"},
    "namespace": {"namespace": "acme"},
    "unknown": {"x": 1},
}
FINE: dict[str, dict[str, Any]] = {
    "priority 1.0": {"priority": 1.0, "payload": {"a": 1.0}},
    "surrogate pair": {"payload": {"a": "\U0001f600"}},
    "right to left": {"payload": {"a": "\u202e"}},
    "marks": {"payload": {"a": "e" + "\u0301" * 1000}},
    "minus zero": {"payload": {"a": -0.0}},
    "2^53": {"payload": {"a": 2**53}},
    "2^63": {"payload": {"a": 2**63}},
    "2^64": {"payload": {"a": 2**64}},
    "64 digits": {"payload": {"a": 10**63}},
    "0.1": {"payload": {"a": 0.1}},
    "html": {"payload": {"a": "<script>alert(1)</script>"}},
    "template": {"payload": {"a": "{{7*7}} ${jndi:x} %s $1 ' \\ %_"}},
    "epoch 1971": {"scheduled_at": "1971-01-01T00:00:00Z"},
    "key 255": {"key": "k" * 255},
    "group and unique 255": {"group_key": "\U0001f600" * 255, "unique_key": "\u20ac" * 255},
    "composed": {"key": "\u00e9"},
    "decomposed": {"key": "e\u0301"},
    "61 deep": {"payload": {"a": json.loads("[" * 60 + "]" * 60)}},
}


async def post(client: httpx.AsyncClient, body: bytes, **headers: str) -> httpx.Response:
    given = {"content-type": "application/json", **headers}
    return await client.post("/v1/tasks", content=body, headers=given)


async def check_still_well(client: httpx.AsyncClient) -> None:
    good = await client.post("/v1/tasks", json={"task_type": "good"})
    assert good.status_code == 201
    for path in ("/v1/tasks", "/v1/dead-letters", "/v1/queues", "/v1/stats", "/metrics"):
        assert (await client.get(path)).status_code == 200, path


async def test_malformed_bodies(client: httpx.AsyncClient) -> None:
    before = psutil.Process().memory_info().rss
    for name, body in MALFORMED.items():
        for _ in range(3):
            answer = await post(client, body)
            assert answer.status_code in {400, 413, 422}, (name, answer.status_code)
            problem = answer.json()
            assert problem["code"] in {
                "malformed_request",
                "payload_too_large",
                "invalid_value",
            }, name
            assert len(answer.content) < 2000
    assert (await client.get("/v1/tasks")).json()["tasks"] == []
    await check_still_well(client)
    assert psutil.Process().memory_info().rss - before < 100 * 1024 * 1024


async def test_wrong_fields(client: httpx.AsyncClient) -> None:
    for name, fields in FIELDS.items():
        for _ in range(3):
            answer = await client.post("/v1/tasks", json={"task_type": "t", **fields})
            assert answer.status_code in {413, 422}, (name, answer.status_code)
            assert answer.json()["field"], name
    items = [{"task_type": "t", **fields} for fields in FIELDS.values()]
    answer = await client.post("/v1/tasks/batch", json={"tasks": items})
    assert answer.json()["stored"] == 0
    assert (await client.get("/v1/tasks")).json()["tasks"] == []
    await check_still_well(client)


async def test_what_is_unusual_but_fine_comes_back_exactly(client: httpx.AsyncClient) -> None:
    for name, fields in FINE.items():
        answer = await client.post("/v1/tasks", json={"task_type": "t", **fields})
        assert answer.status_code == 201, (name, answer.text)
        back = await client.get(answer.headers["location"])
        for field in ("payload", "key"):
            if field in fields:
                sent = json.dumps(fields[field], sort_keys=True)
                assert json.dumps(back.json()[field], sort_keys=True) == sent, name
    ids = {task["task_id"] for task in (await client.get("/v1/tasks")).json()["tasks"]}
    assert len(ids) == len(FINE)


async def test_types_sizes_and_encodings(client: httpx.AsyncClient) -> None:
    good = b'{"task_type":"t"}'
    for content_type in ("", "text/plain", "application/xml", "application/json; charset=utf-16"):
        answer = await post(client, good, **{"content-type": content_type})
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    bomb = zlib.compress(b" " * 10_000_000)
    assert (await post(client, bomb, **{"content-encoding": "gzip"})).status_code == 415
    big = b'{"task_type":"t","payload":{"a":"' + b"x" * (1024 * 1024) + b'"}}'
    assert (await post(client, big)).status_code == 413
    huge = await client.post(
        "/v1/tasks/batch",
        content=b" " * (16 * 1024 * 1024 + 1),
        headers={"content-type": "application/json"},
    )
    assert huge.status_code == 413
    assert (await client.get("/v1/tasks", headers={"x-big": "x" * 20_000})).status_code == 431
    assert (await client.get("/v1/tasks?type=" + "x" * 5000)).status_code == 431
    await check_still_well(client)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=1000000000",
        "limit=x",
        "ready=null",
        "limit=NULL",
        "since=null",
        "limit=1&limit=2",
        "cursor=x",
        "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "cursor=" + "A" * 200,
        "status=ready",
        "status=",
        "since=yesterday",
        "since=2027-01-01",
        "until=infinity",
        "queue=%00",
        "task_type=%27%3B%20DROP",
        "sort=id;select",
        "task_type=%ff",
        "ready=maybe",
        "=",
        "a&b",
    ],
)
async def test_wrong_queries(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/v1/tasks?{query}")
    assert answer.status_code in {400, 422}, answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tasks/%00",
        "/v1/tasks/%2e%2e",
        "/v1/tasks/..%2f..%2fetc",
        "/v1/tasks/1",
        "/v1/tasks/%ff",
        "/v1/queues/%00/pause",
        "/v1/queues/acme~q/pause",
        "/v1/queues/" + "q" * 300 + "/pause",
    ],
)
async def test_wrong_paths(client: httpx.AsyncClient, path: str) -> None:
    method = "POST" if path.endswith("/pause") else "GET"
    answer = await client.request(method, path)
    assert answer.status_code in {400, 404, 422}


async def test_a_worker_that_lies_changes_nothing(api: Api, client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/tasks", json={"task_type": "t", "delay": 900})).json()
    named = {"worker_id": "w", "task_id": made["task_id"]}
    for token in (0, 1, 2**63 - 1):
        answer = await client.post("/v1/leases/complete", json={**named, "fencing_token": token})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_lease")
    for bad in (
        {"fencing_token": 2**63},
        {"fencing_token": -1},
        {"fencing_token": "1"},
        {"fencing_token": 1, "result": "x" * 300_000},
        {"fencing_token": 1, "worker_id": "\r\nx"},
    ):
        answer = await client.post("/v1/leases/complete", json={**named, **bad})
        assert answer.status_code in {413, 422}
    for seconds in (0, 0.001, 3e8):
        claim = {"worker_id": "w", "task_types": ["t"], "lease_seconds": seconds}
        assert (await client.post("/v1/leases", json=claim)).status_code == 422
    assert (await client.get(f"/v1/tasks/{made['task_id']}")).json()["status"] == "pending"
    assert api.application.unforeseen == 0


async def test_an_error_of_any_text_is_one_clean_line(client: httpx.AsyncClient) -> None:
    await client.post("/v1/tasks", json={"task_type": "t", "max_retries": 0})
    lease = (await client.post("/v1/leases", json={"worker_id": "w", "task_types": ["t"]})).json()[
        "leases"
    ][0]
    named = {
        "worker_id": "w",
        "task_id": lease["task_id"],
        "fencing_token": lease["fencing_token"],
        "error": "a\r\n2026-01-01 admin logged in " + "x" * 8000,
    }
    assert (await client.post("/v1/leases/fail", json=named)).status_code == 200
    task = (await client.get(f"/v1/tasks/{lease['task_id']}")).json()
    assert "\n" not in task["last_error"]
    assert len(task["last_error"]) <= 8192


async def raw(api: Api, data: bytes, *, end: bool = False, seconds: float = 15.0) -> bytes:
    """Send bytes as they are and return what comes back until the server closes or answers."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        async with asyncio.timeout(seconds):
            return await reader.read(4096)
    finally:
        writer.close()


async def test_broken_http_is_answered_or_let_go(api: Api) -> None:
    key = await api.key()
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        "content-type: application/json\r\n"
    ).encode()
    assert b" 400 " in await raw(api, b"nonsense\r\n\r\n")
    assert b" 405 " in await raw(api, b"TRACE /v1/tasks HTTP/1.1\r\nhost: x\r\n\r\n")
    large = b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: %s\r\n" % (n, b"x" * 1000) for n in range(200))
    assert b" 431 " in await raw(api, large + b"\r\n")
    two = head + b"content-length: 5\r\ncontent-length: 6\r\n\r\n{}"
    assert b" 400 " in await raw(api, two)


@pytest.mark.slow
async def test_slow_bodies_and_heads_end_in_time(api: Api) -> None:
    key = await api.key()
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        "content-type: application/json\r\n"
    ).encode()
    answers = await asyncio.gather(
        raw(api, head + b"content-length: 100\r\n\r\n{"),
        raw(api, head + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"),
        raw(api, b"GET / HTTP/1.1\r\nhost: x\r\n"),
        raw(api, b""),
    )
    assert b" 408 " in answers[0]
    assert b" 408 " in answers[1]
    assert not any(answers[2:])


def test_the_process_has_not_grown() -> None:
    """What all the above left behind in this process, which is client and server in one."""
    assert psutil.Process(os.getpid()).memory_info().rss < 600 * 1024 * 1024
