"""Text that means something to a terminal, a browser, a log or a database is only text here."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog

from api.conftest import Api
from mainspring.adapters.logs import configure_logs

TEXTS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "</script><svg onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    '=HYPERLINK("http://x")',
    "'; DROP TABLE mainspring.tasks; --",
    "% _ \\ $1",
    "${jndi:ldap://x}",
    "x\r\nFLUSHALL\r\n",
    "a\x1b[2J\x1b]0;title\x07b",
    "a\u202eb\u2066c",
    "e" + "\u0301" * 200,
    "\U0001f600",
]
SECRET = "hunter2-canary"
DSN = f"postgresql://me:{SECRET}@db.internal:5432/x"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    configure_logs("info", "text", stream)
    # The client is part of the test, not of the server.
    logging.getLogger("httpx").setLevel("WARNING")
    yield stream
    root.handlers, root.level = handlers, level
    logging.getLogger("httpx").setLevel(logging.NOTSET)
    structlog.reset_defaults()


async def lease_of(client: httpx.AsyncClient, **task: Any) -> dict[str, Any]:
    made = await client.post("/v1/tasks", json={"task_type": "t", "max_retries": 0, **task})
    assert made.status_code == 201
    claim = {"worker_id": "w", "task_types": ["t"]}
    (lease,) = (await client.post("/v1/leases", json=claim)).json()["leases"]
    named = {name: lease[name] for name in ("task_id", "fencing_token")}
    return {"worker_id": "w", **named}


def check_is_json(answer: httpx.Response) -> Any:
    assert answer.headers["content-type"] in {"application/json", "application/problem+json"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert not any(byte < 32 and byte != 10 for byte in answer.content)
    return answer.json()


async def test_text_comes_back_as_it_was_and_as_nothing_else(client: httpx.AsyncClient) -> None:
    payload = {f"k{at}{text}": text for at, text in enumerate(TEXTS)}
    lease = await lease_of(client, payload=payload)
    failed = await client.post(
        "/v1/leases/fail",
        json={**lease, "error": " ".join(TEXTS), "traceback": "\n".join(TEXTS), "retry": False},
    )
    assert check_is_json(failed)["status"] == "failed"
    task = check_is_json(await client.get(f"/v1/tasks/{lease['task_id']}"))
    assert task["payload"] == payload
    assert task["last_error"] == " ".join(" ".join(TEXTS).split())
    for text in TEXTS:
        note = await client.post(
            "/v1/dead-letters/discard", json={"task_type": text, "reason": "r"}
        )
        assert check_is_json(note)["code"] == "invalid_value"
        query = {"task_type": text, "queue": text}
        assert check_is_json(await client.get("/v1/tasks", params=query))["code"] == "invalid_value"
    for path in ("/v1/tasks", "/v1/dead-letters", "/v1/queues", "/v1/stats"):
        assert (await client.get(path)).status_code == 200
        check_is_json(await client.get(path))
    assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain")
    done = await lease_of(client)
    result = {"result": payload}
    assert (await client.post("/v1/leases/complete", json={**done, **result})).status_code == 200
    task = check_is_json(await client.get(f"/v1/tasks/{done['task_id']}"))
    assert task["result"] == payload


async def test_an_error_is_one_short_line_without_passwords(client: httpx.AsyncClient) -> None:
    lease = await lease_of(client)
    error = f"cannot connect to {DSN}\r\n2026-01-01 admin logged in, password={SECRET}"
    body = {**lease, "error": error, "traceback": f"at {DSN}\npassword={SECRET}\n", "retry": False}
    assert (await client.post("/v1/leases/fail", json=body)).status_code == 200
    answer = await client.get(f"/v1/tasks/{lease['task_id']}")
    assert SECRET not in answer.text
    task = answer.json()
    assert "db.internal" in task["last_error"]
    assert "\n" not in task["last_error"]
    assert "db.internal" in task["attempts"][0]["traceback"]
    long = {**(await lease_of(client)), "error": "e" * 1_000_000}
    assert (await client.post("/v1/leases/fail", json=long)).status_code == 422
    long["error"] = "\u20ac" * 8192
    assert (await client.post("/v1/leases/fail", json=long)).status_code == 200
    task = (await client.get(f"/v1/tasks/{long['task_id']}")).json()
    assert len(task["last_error"].encode()) <= 8192


async def test_nothing_of_a_task_or_a_key_is_logged(
    logged: io.StringIO, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw is logged with its stack: even then without what was sent."""
    key = await api.key()
    async with api.with_key(key) as client:
        lease = await lease_of(client, payload={"card": SECRET}, key=f"k-{SECRET}")
        body = {**lease, "error": f"{DSN}\n\x1b[31mred", "retry": False}
        assert (await client.post("/v1/leases/fail", json=body)).status_code == 200
        await client.post("/v1/tasks", json={"task_type": f"bad\r\n{SECRET}"})
        await client.get("/v1/tasks", params={"cursor": SECRET})

        async def broken(*_: object) -> None:
            raise RuntimeError(f"no {DSN}\r\n2026-01-01 admin logged in")

        monkeypatch.setattr(api.store, "queues", broken)
        answer = await client.get("/v1/queues")
        monkeypatch.undo()
    assert (answer.status_code, answer.json()["code"]) == (500, "mainspring_error")
    assert "db.internal" not in answer.text
    assert api.application.unforeseen == 1
    api.application.unforeseen = 0
    text = logged.getvalue()
    assert answer.json()["request_id"] in text
    assert "RuntimeError" in text
    assert SECRET not in text
    assert key not in text
    assert "\x1b" not in text
    assert not any(line.startswith("2026-01-01 admin") for line in text.splitlines())


async def test_a_problem_repeats_only_so_much_of_what_was_sent(client: httpx.AsyncClient) -> None:
    for body in (
        b'{"' + b"k" * 100_000 + b'":1}',
        b'{"tasks":[],"' + b"k" * 100_000 + b'":1}',
        json.dumps({"task_type": "t", "payload": {"k" * 50_000: {"x": [{"y": "\x00"}]}}}).encode(),
    ):
        for path in ("/v1/tasks", "/v1/tasks/batch", "/v1/schedules", "/v1/leases"):
            headers = {"content-type": "application/json"}
            answer = await client.post(path, content=body, headers=headers)
            assert answer.status_code in {400, 422}
            assert len(answer.content) < 3000, path
