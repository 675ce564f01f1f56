"""A database that stops answering, or cannot be reached: every answer comes within five seconds."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from api.conftest import Api, started
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import Proxy

pytestmark = [pytest.mark.fault, pytest.mark.slow]

BOUND_SECONDS = 5.2
"""Five, and what the test itself takes."""

KEYED = {"tasks": [{"task_type": "t", "key": f"k{n}"} for n in range(3000)]}
PLAIN = {"tasks": [{"task_type": "t"}] * 3000}


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """Stop the server and its children where they are."""
    pid_file = server.embedded.data_dir / "pgdata" / "postmaster.pid"
    first = psutil.Process(int(pid_file.read_text().split()[0]))
    processes = [first, *first.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


async def timed(client: httpx.AsyncClient, method: str, path: str, body: Any) -> httpx.Response:
    began = time.monotonic()
    answer = await client.request(method, path, json=body)
    took = time.monotonic() - began
    assert took < BOUND_SECONDS, (path, took)
    assert answer.status_code == 503, (path, answer.text[:200])
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    return answer


async def check_outage(client: httpx.AsyncClient, task_id: str) -> list[httpx.Response]:
    """Ask for everything at once, as callers do in the first second."""
    claim = {"worker_id": "w", "task_types": ["t"]}
    graphql = {"query": f'{{ task(id: "{task_id}") {{ status }} }}'}
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/tasks/batch", KEYED),
        ("POST", "/v1/tasks/batch", PLAIN),
        ("POST", "/v1/tasks", {"task_type": "t"}),
        ("POST", "/v1/tasks", {"task_type": "t", "key": "one"}),
        ("GET", "/v1/tasks", None),
        ("GET", f"/v1/tasks/{task_id}", None),
        ("POST", f"/v1/tasks/{task_id}/cancel", {}),
        ("POST", "/v1/queues/q/pause", None),
        ("POST", "/v1/leases", claim),
        ("GET", "/v1/schedules", None),
        ("POST", "/graphql", graphql),
    ]
    return list(await asyncio.gather(*(timed(client, *request) for request in requests)))


async def check_recovered(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        while (await client.post("/v1/tasks", json={"task_type": "t"})).status_code != 201:
            pass
        again = await client.post("/v1/tasks/batch", json=KEYED)
    assert again.status_code == 207
    first = [result["task_id"] for result in again.json()["results"]]
    second = (await client.post("/v1/tasks/batch", json=KEYED)).json()["results"]
    assert {result["status"] for result in second} == {200}
    assert [result["task_id"] for result in second] == first
    assert len(set(first)) == len(KEYED["tasks"])


@asynccontextmanager
async def warm(api: Api) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client whose key the API knows, with a connection to the database that is open."""
    async with await api.client() as client:
        made = await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})
        yield client, made.json()["task_id"]


async def test_a_server_that_stands_still(database: str, postgres_server: PostgresServer) -> None:
    async with started(database, graphql=True) as api, warm(api) as (client, task_id):
        with stopped(postgres_server):
            answers = await check_outage(client, task_id)
        for answer, tasks in ((answers[0], KEYED), (answers[1], PLAIN)):
            problem = answer.json()
            assert problem["code"] in {"outcome_unknown", "store_unavailable"}
            if problem["code"] == "outcome_unknown":
                assert len(problem["results"]) == len(tasks["tasks"])
                codes = {result["code"] for result in problem["results"]}
                assert codes <= {"outcome_unknown", "store_unavailable"}
                assert "outcome_unknown" in codes
        await check_recovered(client)


async def test_a_server_that_nobody_can_connect_to(
    database: str, postgres_server: PostgresServer
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    url = urlsplit(postgres_server.tcp_dsn(name))
    assert url.hostname is not None
    assert url.port is not None
    proxy = Proxy(url.hostname, url.port)
    listener = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    dsn = f"postgresql://{url.username}:{url.password}@127.0.0.1:{port}{url.path}"
    try:
        async with started(dsn, graphql=True) as api, warm(api) as (client, task_id):
            listener.close()
            await proxy.close()
            await check_outage(client, task_id)
            listener = await asyncio.start_server(proxy.accept, "127.0.0.1", port)
            await check_recovered(client)
    finally:
        listener.close()
        await proxy.close()
