"""Workers in any language: claim, keep, end; and nobody ends what is another's."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx

from api.conftest import Api, started
from mainspring.ports.access import Scope


async def claim(client: httpx.AsyncClient, **more: Any) -> list[dict[str, Any]]:
    body = {"worker_id": "w", "task_types": ["t"], "limit": 10, **more}
    answer = await client.post("/v1/leases", json=body)
    assert answer.status_code == 200, answer.text
    leases: list[dict[str, Any]] = answer.json()["leases"]
    return leases


def named(lease: dict[str, Any], worker: str = "w") -> dict[str, Any]:
    return {
        "worker_id": worker,
        "task_id": lease["task_id"],
        "fencing_token": lease["fencing_token"],
    }


async def submit(client: httpx.AsyncClient, **more: Any) -> str:
    answer = await client.post("/v1/tasks", json={"task_type": "t", **more})
    task_id: str = answer.json()["task_id"]
    return task_id


async def test_claim_heartbeat_complete(client: httpx.AsyncClient) -> None:
    task_id = await submit(client, payload={"n": 1}, timeout=7)
    (lease,) = await claim(client)
    assert (lease["task_id"], lease["payload"], lease["attempt"]) == (task_id, {"n": 1}, 1)
    assert (lease["timeout"], lease["lease_seconds"]) == (7.0, 60.0)
    beat = {"worker_id": "w", "leases": [{"task_id": task_id, "fencing_token": 1}]}
    renewed = (await client.post("/v1/leases/heartbeat", json=beat)).json()["leases"]
    assert renewed == [
        {"task_id": task_id, "fencing_token": 1, "held": True, "cancel_requested": False}
    ]
    assert (await client.post(f"/v1/tasks/{task_id}/cancel")).json()["status"] == "cancelling"
    told = (await client.post("/v1/leases/heartbeat", json=beat)).json()["leases"][0]
    assert told["cancel_requested"] is True
    ended = await client.post(
        "/v1/leases/fail", json={**named(lease), "error": "told to stop", "cancelled": True}
    )
    assert ended.json()["status"] == "cancelled"
    assert (await client.get(f"/v1/tasks/{task_id}")).json()["status"] == "cancelled"


async def test_a_stale_token_is_refused(client: httpx.AsyncClient) -> None:
    task_id = await submit(client)
    (old,) = await claim(client)
    await client.post("/v1/leases/fail", json={**named(old), "error": "e", "release": True})
    (new,) = await claim(client, wait_seconds=5)
    assert new["fencing_token"] > old["fencing_token"]
    for path, more in (("complete", {}), ("fail", {"error": "e"})):
        answer = await client.post(f"/v1/leases/{path}", json={**named(old), **more})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_lease")
    beat = {"worker_id": "w", "leases": [named(old) | {}]}
    beat["leases"] = [{"task_id": task_id, "fencing_token": old["fencing_token"]}]
    held = (await client.post("/v1/leases/heartbeat", json=beat)).json()["leases"][0]
    assert held["held"] is False
    assert (await client.post("/v1/leases/complete", json=named(new))).status_code == 200
    twice = await client.post("/v1/leases/complete", json=named(new))
    assert twice.status_code == 409


async def test_a_lease_belongs_to_its_worker_and_its_key(api: Api) -> None:
    async with await api.client() as owner, await api.client() as thief:
        await submit(owner)
        (lease,) = await claim(owner)
        for client, worker in ((owner, "other"), (thief, "w")):
            answer = await client.post("/v1/leases/complete", json=named(lease, worker))
            assert answer.status_code == 409
            beat = {
                "worker_id": worker,
                "leases": [{"task_id": lease["task_id"], "fencing_token": 1}],
            }
            held = (await client.post("/v1/leases/heartbeat", json=beat)).json()["leases"][0]
            assert held["held"] is False
        assert (await owner.post("/v1/leases/complete", json=named(lease))).status_code == 200


async def test_a_worker_waits_for_work(client: httpx.AsyncClient) -> None:
    async def later() -> None:
        await client.get("/health/live")
        await submit(client)

    async with asyncio.timeout(10):
        leases, _ = await asyncio.gather(claim(client, wait_seconds=8), later())
    assert len(leases) == 1
    assert await claim(client) == []


async def test_failures_follow_the_backoff_of_the_task_to_the_dead_letters(
    client: httpx.AsyncClient,
) -> None:
    task_id = await submit(
        client, max_retries=1, retry_backoff={"kind": "fixed", "base": 0, "max": 0}
    )
    (first,) = await claim(client)
    answer = await client.post("/v1/leases/fail", json={**named(first), "error": "E: one"})
    assert answer.json()["status"] == "retrying"
    (second,) = await claim(client, wait_seconds=5)
    assert second["attempt"] == 2
    answer = await client.post("/v1/leases/fail", json={**named(second), "error": "E: two"})
    assert answer.json()["status"] == "failed"
    task = (await client.get(f"/v1/dead-letters/{task_id}")).json()
    assert [attempt["error"] for attempt in task["attempts"]] == ["E: one", "E: two"]
    worker = task["attempts"][0]["worker_id"]
    assert worker.endswith(":w")


async def test_levels_and_queues_are_chosen(client: httpx.AsyncClient) -> None:
    await submit(client, priority=0, queue="a")
    await submit(client, priority=9, queue="b")
    assert [lease["priority"] for lease in await claim(client, levels=["low"])] == [9]
    assert await claim(client, queues=["b"]) == []
    assert [lease["queue"] for lease in await claim(client, queues=["a"])] == ["a"]


async def test_workers_of_the_api_are_listed(api: Api) -> None:
    async with (
        await api.client() as client,
        await api.client(Scope.READ, namespace="acme") as stranger,
    ):
        await claim(client, queues=["mail"])
        (worker,) = (await client.get("/v1/workers")).json()["workers"]
        assert worker["worker_id"].endswith(":w")
        assert worker["queues"] == ["mail"]
        assert (await stranger.get("/v1/workers")).json()["workers"] == []


async def test_a_worker_that_has_left_takes_nothing(api: Api, client: httpx.AsyncClient) -> None:
    gone = [await api.client() for _ in range(3)]
    waiting = [asyncio.create_task(claim(one, wait_seconds=60)) for one in gone]
    await asyncio.wait(waiting, timeout=0.5)
    for one, task in zip(gone, waiting, strict=True):
        task.cancel()
        await one.aclose()
    await asyncio.wait(waiting)
    task_id = await submit(client)
    # Long enough for each of them to look again, if it were still there.
    with suppress(TimeoutError):
        async with asyncio.timeout(0.7):
            await asyncio.Event().wait()
    (lease,) = await claim(client)
    assert (lease["task_id"], lease["fencing_token"], lease["attempt"]) == (task_id, 1, 1)


async def test_who_waits_is_let_go_when_the_server_stops(database: str) -> None:
    async with started(database) as api:
        client = await api.client()
        waiting = asyncio.create_task(claim(client, wait_seconds=60))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
    assert await waiting == []
    await client.aclose()
