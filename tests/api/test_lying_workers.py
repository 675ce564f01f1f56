"""Workers that claim what is not so: it never changes anything."""

import asyncio
from typing import Any

import httpx

from api.conftest import Api


async def lease_of(client: httpx.AsyncClient, worker: str = "w") -> dict[str, Any]:
    assert (await client.post("/v1/tasks", json={"task_type": "t"})).status_code == 201
    claim = {"worker_id": worker, "task_types": ["t"]}
    (lease,) = (await client.post("/v1/leases", json=claim)).json()["leases"]
    named = {name: lease[name] for name in ("task_id", "fencing_token")}
    return {"worker_id": worker, **named}


async def state(client: httpx.AsyncClient, lease: dict[str, Any]) -> tuple[str, int, int]:
    task = (await client.get(f"/v1/tasks/{lease['task_id']}")).json()
    return task["status"], task["fencing_token"], task["attempt_count"]


async def check_refused(client: httpx.AsyncClient, lie: dict[str, Any]) -> None:
    for path, more in (
        ("/v1/leases/complete", {"result": {"stolen": True}}),
        ("/v1/leases/fail", {"error": "e", "retry": False}),
        ("/v1/leases/fail", {"error": "e", "cancelled": True}),
        ("/v1/leases/fail", {"error": "e", "release": True}),
    ):
        answer = await client.post(path, json={**lie, **more})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_lease"), (path, more)
    named = {name: lie[name] for name in ("task_id", "fencing_token")}
    beat = await client.post(
        "/v1/leases/heartbeat", json={"worker_id": lie["worker_id"], "leases": [named]}
    )
    assert beat.json()["leases"] == [{**named, "held": False, "cancel_requested": False}]


async def test_tokens_and_names_that_are_not_theirs(api: Api, client: httpx.AsyncClient) -> None:
    lease = await lease_of(client)
    other = await lease_of(client, "v")
    before = await state(client, lease)
    token = lease["fencing_token"]
    for lie in (
        {"fencing_token": token + 1},
        {"fencing_token": token - 1},
        {"fencing_token": 2**63 - 1},
        {"fencing_token": 0},
        {"worker_id": "v"},
        {"task_id": other["task_id"]},
    ):
        await check_refused(client, {**lease, **lie})
    # Another key of the same namespace, that knows everything, is still not the holder.
    async with await api.client() as stranger:
        await check_refused(stranger, lease)
    assert await state(client, lease) == before
    done = await client.post("/v1/leases/complete", json={**lease, "result": 1})
    assert done.status_code == 200


async def test_an_attempt_ends_once(client: httpx.AsyncClient) -> None:
    lease = await lease_of(client)
    first, *others = await asyncio.gather(
        *(client.post("/v1/leases/complete", json={**lease, "result": n}) for n in range(5))
    )
    statuses = sorted(answer.status_code for answer in (first, *others))
    assert statuses == [200, 409, 409, 409, 409]
    ended = await state(client, lease)
    assert ended[0] == "completed"
    await check_refused(client, lease)
    assert await state(client, lease) == ended


async def test_done_after_cancel(client: httpx.AsyncClient) -> None:
    told = await lease_of(client)
    cancel = await client.post(f"/v1/tasks/{told['task_id']}/cancel")
    assert cancel.json()["status"] == "cancelling"
    # It was running and finished first: that is allowed, and then it is not cancelled.
    assert (await client.post("/v1/leases/complete", json=told)).status_code == 200
    assert (await state(client, told))[0] == "completed"
    stopped = await lease_of(client)
    await client.post(f"/v1/tasks/{stopped['task_id']}/cancel")
    end = {**stopped, "error": "told to", "cancelled": True}
    assert (await client.post("/v1/leases/fail", json=end)).status_code == 200
    await check_refused(client, stopped)
    assert (await state(client, stopped))[0] == "cancelled"


async def test_an_old_token_after_the_task_came_back(client: httpx.AsyncClient) -> None:
    old = await lease_of(client)
    release = {**old, "error": "later", "release": True}
    assert (await client.post("/v1/leases/fail", json=release)).status_code == 200
    claim = {"worker_id": "w", "task_types": ["t"], "wait_seconds": 5}
    (new,) = (await client.post("/v1/leases", json=claim)).json()["leases"]
    assert new["task_id"] == old["task_id"]
    assert new["fencing_token"] > old["fencing_token"]
    await check_refused(client, old)
    assert (await state(client, old))[:2] == ("running", new["fencing_token"])


async def test_ten_thousand_heartbeats_at_once(client: httpx.AsyncClient) -> None:
    lease = await lease_of(client)
    named = {name: lease[name] for name in ("task_id", "fencing_token")}
    many = {"worker_id": "w", "leases": [named] * 1000}
    answers = await asyncio.gather(
        *(client.post("/v1/leases/heartbeat", json=many) for _ in range(10))
    )
    for answer in answers:
        held = [one["held"] for one in answer.json()["leases"]]
        assert held == [True] * 1000
    over = {"worker_id": "w", "leases": [named] * 1001}
    assert (await client.post("/v1/leases/heartbeat", json=over)).status_code == 422
    assert (await state(client, lease))[0] == "running"
