"""Server-sent events: in order, resumed without loss, cheap when idle, closed when not read."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from api.conftest import Api


async def events(
    client: httpx.AsyncClient, task_id: str, last: str | None = None
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    headers = {} if last is None else {"last-event-id": last}
    async with client.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        event_id = ""
        async for line in stream.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                event_id = value
            elif name == "data":
                yield event_id, json.loads(value)


async def claim(client: httpx.AsyncClient) -> dict[str, Any]:
    body = {"worker_id": "w", "task_types": ["t"], "wait_seconds": 10}
    leases = (await client.post("/v1/leases", json=body)).json()["leases"]
    return {
        "worker_id": "w",
        "task_id": leases[0]["task_id"],
        "fencing_token": leases[0]["fencing_token"],
    }


async def test_the_whole_life_is_told_in_order(client: httpx.AsyncClient) -> None:
    task_id = (await client.post("/v1/tasks", json={"task_type": "t"})).json()["task_id"]

    async def live() -> None:
        first = await claim(client)
        await client.post(
            "/v1/leases/fail", json={**first, "error": "ValueError: once", "retry_after": 0}
        )
        second = await claim(client)
        await client.post("/v1/leases/complete", json={**second, "result": 42})

    async with asyncio.timeout(30):
        told, _ = await asyncio.gather(collect(client, task_id), live())
    names = [event["event"] for _, event in told]
    assert names[0] == "pending"
    assert names[-1] == "completed"
    assert names.count("attempt_failed") == 1
    assert [name for name in names if name != "retrying"] == [
        "pending",
        "running",
        "attempt_failed",
        "running",
        "completed",
    ]
    assert told[-1][1]["result"] == 42


async def collect(
    client: httpx.AsyncClient, task_id: str, last: str | None = None
) -> list[tuple[str, dict[str, Any]]]:
    return [event async for event in events(client, task_id, last)]


async def test_a_stream_goes_on_where_it_was_lost(client: httpx.AsyncClient) -> None:
    task_id = (await client.post("/v1/tasks", json={"task_type": "t"})).json()["task_id"]
    async with asyncio.timeout(30):
        async for last, event in events(client, task_id):  # noqa: B007 - used below
            assert event["event"] == "pending"
            break
        named = await claim(client)
        await client.post("/v1/leases/complete", json={**named, "result": None})
        rest = await collect(client, task_id, last)
        assert [event["event"] for _, event in rest] == ["running", "completed"]
        assert await collect(client, task_id, rest[-1][0]) == []
        everything = await collect(client, task_id, "nonsense")
        assert [event["event"] for _, event in everything] == ["pending", "running", "completed"]


async def test_idle_streams_are_many_and_cost_one_query(api: Api) -> None:
    async with await api.client() as client:
        batch = {"tasks": [{"task_type": "t", "delay": 600}] * 200}
        results = (await client.post("/v1/tasks/batch", json=batch)).json()["results"]
        host, port = api.url.removeprefix("http://").split(":")
        key = client.headers["authorization"]
        writers = []
        for item in results:
            reader, writer = await asyncio.open_connection(host, int(port))
            path = f"/v1/tasks/{item['task_id']}/events"
            writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n\r\n".encode())
            writers.append((reader, writer))
        async with asyncio.timeout(20):
            for reader, _ in writers:
                assert b"event: pending" in await reader.readuntil(b"event: pending")
        for _, writer in writers:
            writer.close()
        # Those who left are forgotten.
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > 60:
                assert (await client.get("/health/live")).status_code == 200
