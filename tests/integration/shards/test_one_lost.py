"""One of two shards is away: what is in the other goes on, and everybody is told."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from integration.shards.conftest import Two
from integration.worker.bench import Bench
from integration.worker.sample_app import registry
from mainspring.adapters.system import SystemClock
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.ids import key_tail
from mainspring.domain.status import TaskStatus
from mainspring.ports.access import Scope
from mainspring.ports.store import ClaimRequest, DeadLetterFilter, TaskFilter
from mainspring.ports.whole import WholeStore
from mainspring.wiring.api import api_running
from mainspring.wiring.store import open_store

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

CLOCK = SystemClock()
REQUEST = ClaimRequest(worker_id="w", limit=10, lease_seconds=60.0, task_types=("t",))
LOST_KEY = next(key for key in map(str, range(100)) if key_tail(key) % 64 >= 32)
KEPT_KEY = next(key for key in map(str, range(100)) if key_tail(key) % 64 < 32)


async def is_back(store: WholeStore) -> None:
    async with asyncio.timeout(10):
        while store.missing():
            await CLOCK.sleep(0.02)


async def test_the_store_goes_on_with_what_it_has(two: Two) -> None:
    store = await open_store(two.settings)
    kept, lost = two.task(0), two.task(1)
    await store.submit([kept, lost])
    await two.reaches[1].lose()
    page = await store.page(TaskFilter(), 10)
    assert page.partial
    assert [task.task_id for task in page.tasks] == [kept.id]
    assert store.missing()[0].startswith("shard 2 (127.0.0.1:")
    assert store.lost_partitions() == frozenset(range(32, 64))
    began = time.monotonic()
    claim = await store.claim(REQUEST)
    assert [lease.id for lease in claim.leases] == [kept.id]
    assert sum(state.running for state in await store.queues()) == 1
    assert await store.statuses([kept.id, lost.id]) == {kept.id: TaskStatus.RUNNING}
    assert await store.replay(DeadLetterFilter(), 10) == []
    for call in (store.get(lost.id), store.submit([two.task(1)]), store.places([lost.id])):
        with pytest.raises(StoreUnavailable, match=r"shard 2 .* does not answer"):
            await call
    assert time.monotonic() - began < 2
    await two.reaches[1].find()
    await is_back(store)
    again = await store.page(TaskFilter(), 10)
    assert not again.partial
    assert {task.task_id for task in again.tasks} == {kept.id, lost.id}
    assert [lease.id for lease in (await store.claim(REQUEST)).leases] == [lost.id]
    await store.close()


async def test_a_shard_that_stands_still_holds_up_one_claim(two: Two) -> None:
    store = await open_store(two.settings)
    await store.submit([two.task(number % 2) for number in range(20)])
    two.reaches[1].proxy.swallow_replies = True
    began = time.monotonic()
    claim = await store.claim(REQUEST)
    assert 0 < len(claim.leases) <= 10
    assert time.monotonic() - began < 4
    began = time.monotonic()
    rest = await store.claim(REQUEST)
    assert len(claim.leases) + len(rest.leases) == 10
    assert time.monotonic() - began < 1
    two.reaches[1].proxy.swallow_replies = False
    await two.reaches[1].lose()
    await two.reaches[1].find()
    await is_back(store)
    await store.close()


async def test_a_process_starts_without_one_and_is_joined_by_it(two: Two) -> None:
    lost = two.reaches[1]
    await lost.lose()
    store = await open_store(two.settings)
    assert (await store.page(TaskFilter(), 10)).partial
    await two.reaches[0].lose()
    with pytest.raises(StoreUnavailable):
        await store.page(TaskFilter(), 10)
    with pytest.raises(StoreUnavailable):
        await open_store(two.settings)
    await two.reaches[0].find()
    await lost.find()
    await is_back(store)
    assert not (await store.page(TaskFilter(), 10)).partial
    await store.close()


async def test_an_api_server_starts_without_the_shard_that_has_the_keys(two: Two) -> None:
    await two.reaches[0].lose()
    store = await open_store(two.settings)
    try:
        async with (
            api_running(store, two.settings, lambda _: None),
            httpx.AsyncClient(timeout=20, trust_env=False) as opened,
        ):
            ready = await opened.get(f"http://127.0.0.1:{two.settings.port}/health/ready")
            assert ready.json()["status"] == "degraded"
    finally:
        await two.reaches[0].find()
        await store.close()


@pytest.fixture
async def client(two: Two) -> AsyncIterator[httpx.AsyncClient]:
    store = await open_store(two.settings)
    secret = secrets.token_bytes(ID_BYTES + SECRET_BYTES)
    text, record = new_key("test", secret, namespace="default", scopes=tuple(Scope))
    await store.add_key(record)
    async with (
        api_running(store, two.settings, lambda _: None),
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{two.settings.port}",
            headers={"authorization": f"Bearer {text}"},
            timeout=20,
            trust_env=False,
        ) as opened,
    ):
        yield opened
    await store.close()


async def test_the_api_says_what_is_missing(two: Two, client: httpx.AsyncClient) -> None:
    made = [
        (await client.post("/v1/tasks", json={"task_type": "t", "delay": 60, "key": key}))
        for key in (KEPT_KEY, LOST_KEY)
    ]
    kept, lost = (answer.json()["task_id"] for answer in made)
    assert (await client.get("/v1/tasks")).json()["partial"] is False
    await two.reaches[1].lose()
    listed = (await client.get("/v1/tasks")).json()
    assert listed["partial"] is True
    assert [task["task_id"] for task in listed["tasks"]] == [kept]
    for path in ("/v1/queues", "/v1/workers", "/v1/stats", "/v1/schedules", "/v1/audit"):
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert answer.json()["partial"] is True, path
    ready = await client.get("/health/ready")
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "degraded",
        "parts": {"store": "ok", "shard 2": "store_unavailable"},
    }
    assert (await client.get(f"/v1/tasks/{kept}")).status_code == 200
    gone = await client.get(f"/v1/tasks/{lost}")
    assert gone.status_code == 503
    assert gone.json()["code"] == "store_unavailable"
    await check_submissions(client)
    await two.reaches[1].find()
    async with asyncio.timeout(10):
        while (await client.get(f"/v1/tasks/{lost}")).status_code != 200:
            await CLOCK.sleep(0.02)
        while (await client.get("/health/ready")).json()["status"] != "ok":
            await CLOCK.sleep(0.05)
    assert (await client.get("/v1/tasks")).json()["partial"] is False
    again = await client.post("/v1/tasks", json={"task_type": "t", "key": f"{LOST_KEY}-x"})
    assert again.status_code == 201


async def test_a_limit_is_divided_and_every_shard_has_to_hear_of_it(
    two: Two, client: httpx.AsyncClient
) -> None:
    path = "/v1/queues/default/limits"
    low = await client.put(path, json={"queue": {"concurrency": 1}})
    assert (low.status_code, low.json()["field"]) == (422, "queue.concurrency")
    assert "at least 2" in low.json()["detail"]
    answer = await client.put(path, json={"queue": {"concurrency": 3, "rate": 9, "burst": 4}})
    assert answer.json()["queue"] == {"concurrency": 3, "rate": 9.0, "burst": 4}
    for _ in range(2):
        keys = [str(key) for key in range(40)]
        tasks = [{"task_type": "t", "group_key": key} for key in keys]
        assert (await client.post("/v1/tasks/batch", json={"tasks": tasks})).status_code == 207
    claim = {"worker_id": "w", "task_types": ["t"], "limit": 10}
    assert len((await client.post("/v1/leases", json=claim)).json()["leases"]) == 3
    assert (await client.post("/v1/leases", json=claim)).json()["leases"] == []
    await two.reaches[1].lose()
    for method, body in (("GET", None), ("PUT", {"queue": {"concurrency": 9}})):
        assert (await client.request(method, path, json=body)).status_code == 503
    (queue,) = (await client.get("/v1/queues")).json()["queues"]
    assert queue["running"] in {1, 2}
    await two.reaches[1].find()
    async with asyncio.timeout(10):
        while (await client.get(path)).status_code != 200:
            await CLOCK.sleep(0.02)
    assert (await client.put(path, json={"queue": {}})).json()["queue"]["concurrency"] is None
    assert len((await client.post("/v1/leases", json=claim)).json()["leases"]) == 10


async def check_submissions(client: httpx.AsyncClient) -> None:
    """Those with a key of the lost shard are refused, all others are stored."""
    keys = [key for key in map(str, range(200, 240)) if key_tail(key) % 64 >= 32]
    tasks = [{"task_type": "t", "key": key, "delay": 60} for key in keys[:5]]
    tasks += [{"task_type": "t", "delay": 60}] * 20
    batch, single, plain = await asyncio.gather(
        client.post("/v1/tasks/batch", json={"tasks": tasks}),
        client.post("/v1/tasks", json={"task_type": "t", "key": keys[6]}),
        client.post("/v1/tasks", json={"task_type": "t", "delay": 60}),
    )
    assert batch.status_code == 207
    statuses = [result["status"] for result in batch.json()["results"]]
    assert statuses == [503] * 5 + [201] * 20
    assert single.status_code == 503
    assert int(single.headers["retry-after"]) >= 1
    assert plain.status_code == 201


async def test_a_worker_runs_what_is_in_the_other(two: Two, tmp_path: Path) -> None:
    store = await open_store(two.settings)
    bench = Bench(store, registry(), tmp_path)
    try:
        bench.start(processes=1, lease_seconds=4.0, heartbeat_seconds=0.5)
        await bench.ended(*await echoes(two, store, [0, 1] * 10))
        slow = [
            two.task(
                shard,
                task_type="good",
                payload=json.dumps({"log": bench.log, "name": f"slow{shard}", "seconds": 1.0}),
            )
            for shard in (0, 1)
        ]
        await store.submit(slow)
        await bench.noted("good slow", 2)
        await two.reaches[1].lose()
        await bench.ended(*await echoes(two, store, [0] * 50))
        (kept,) = await bench.ended(slow[0].id)
        assert kept.status is TaskStatus.COMPLETED
        await two.reaches[1].find()
        await is_back(store)
        await bench.ended(*await echoes(two, store, [0, 1] * 10))
        # It ended while its shard was away, and did not run twice.
        (late,) = await bench.ended(slow[1].id)
        assert (late.status, late.attempt_count) == (TaskStatus.COMPLETED, 1)
    finally:
        await bench.close()


async def echoes(two: Two, store: WholeStore, shards: list[int]) -> list[UUID]:
    """Submit a short task for each of these shards."""
    tasks = [two.task(shard, task_type="echo", payload='{"value": 1}') for shard in shards]
    await store.submit(tasks)
    return [task.id for task in tasks]
