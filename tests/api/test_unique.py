"""Group keys and unique keys over REST and the client."""

from typing import Any

import httpx
import pytest

from api.conftest import Api
from api.test_leases import claim
from api.test_placement import read
from mainspring.client import Client
from mainspring.domain.errors import InvalidValue, UniqueKeyTaken
from mainspring.domain.ids import key_tail
from mainspring.domain.task import Failed, Failure, FailureKind, Settlement
from mainspring.ports.store import ClaimRequest

SYNC = {"task_type": "t", "unique_key": "sync:7"}


async def posted(client: httpx.AsyncClient, status: int, **task: Any) -> dict[str, Any]:
    answer = await client.post("/v1/tasks", json={"task_type": "t", **task})
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_the_live_task_is_the_answer_until_it_has_ended(api: Api) -> None:
    async with await api.client(namespace="acme") as tenant, await api.client() as other:
        keys = {"unique_key": "sync:7", "group_key": "7"}
        made = await posted(tenant, 201, queue="reports", priority=2, **keys)
        assert (made["unique_key"], made["group_key"], made["key"]) == ("sync:7", "7", None)
        assert int(made["task_id"][-4:], 16) == key_tail("7")
        # Of a unique key one sees the task that is live, whatever was asked for.
        again = await posted(tenant, 200, **{**keys, "task_type": "u", "labels": ["gpu"]})
        assert again == {**made, "is_new": False}
        assert (await posted(other, 201, **keys))["task_id"] != made["task_id"]
        shown = await read(tenant, f"/v1/tasks/{made['task_id']}")
        assert (shown["unique_key"], shown["group_key"]) == ("sync:7", "7")
        assert (shown["status"], shown["labels"]) == ("pending", [])
        cancelled = await tenant.post(f"/v1/tasks/{made['task_id']}/cancel")
        assert cancelled.status_code == 200
        assert (await posted(tenant, 201, **keys))["task_id"] != made["task_id"]
        listed = await read(tenant, "/v1/tasks?group_key=7")
        assert {task["unique_key"] for task in listed["tasks"]} == {"sync:7"}
        assert len(listed["tasks"]) == 2
        assert (await read(tenant, "/v1/tasks?group_key=8"))["tasks"] == []


async def test_batches_answer_for_each(client: httpx.AsyncClient) -> None:
    tasks = [SYNC, {"task_type": "t"}, SYNC, {**SYNC, "group_key": "7"}, {**SYNC, "key": "k"}]
    answer = await client.post("/v1/tasks/batch", json={"tasks": tasks})
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201, 201, 200, 201, 422]
    assert results[2]["task_id"] == results[0]["task_id"] != results[3]["task_id"]
    assert results[4]["field"] == "tasks[4].unique_key"
    assert len((await read(client, "/v1/tasks"))["tasks"]) == 3


async def test_both_kinds_of_keys_are_refused(client: httpx.AsyncClient) -> None:
    for keys, field in (
        ({"unique_key": "u", "key": "k"}, "unique_key"),
        ({"unique_key": ""}, "unique_key"),
        ({"group_key": "a\nb"}, "group_key"),
        ({"group_key": "g" * 256}, "group_key"),
        ({"group_key": 7}, "group_key"),
    ):
        answer = await client.post("/v1/tasks", json={"task_type": "t", **keys})
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    headers = {"idempotency-key": "k"}
    answer = await client.post("/v1/tasks", json=SYNC, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (409, "unique_key")


async def test_a_group_key_is_part_of_what_an_idempotency_key_stands_for(
    client: httpx.AsyncClient,
) -> None:
    made = await posted(client, 201, key="k", group_key="7")
    assert (await posted(client, 200, key="k", group_key="7"))["task_id"] == made["task_id"]
    await posted(client, 409, key="k")
    await posted(client, 409, key="k", group_key="8")


async def test_a_dead_letter_whose_key_is_taken_stays_one(api: Api) -> None:
    async with Client(api.url, await api.key(namespace="acme")) as client:
        dead = await client.submit("t", unique_key="u", max_retries=0)
        await fail(api)
        live = await client.submit("t", {"a": 1}, unique_key="u", delay=600)
        assert live["is_new"]
        again = await client.submit("t", unique_key="u")
        assert (again["task_id"], again["is_new"]) == (live["task_id"], False)
        with pytest.raises(UniqueKeyTaken, match=r"unique key 'u', which a live task has now") as e:
            await client.replay(dead["task_id"])
        assert e.value.field == "task_id"
        assert await client.replay(task_type="t") == []
        await client.cancel(live["task_id"])
        assert await client.replay(dead["task_id"]) != []
        many = [{"task_type": "t", "unique_key": "v", "group_key": str(n % 2)} for n in range(4)]
        results = await client.submit_many(many)
        assert [result["status"] for result in results] == [201, 201, 200, 200]
        found = [task["task_id"] async for task in client.tasks(group_key="1")]
        assert found == [results[1]["task_id"]] == [results[3]["task_id"]]
        with pytest.raises(InvalidValue):
            await client.submit("t", unique_key="u", key="k")


async def fail(api: Api) -> None:
    request = ClaimRequest(worker_id="w", limit=10, lease_seconds=60, task_types=("t",))
    failed = Failed(Failure(kind=FailureKind.ERROR, message="no"))
    for lease in (await api.store.claim(request)).leases:
        await api.store.settle([Settlement(lease.id, lease.fencing_token, failed)])


async def test_a_task_of_a_group_is_claimed(client: httpx.AsyncClient) -> None:
    made = await posted(client, 201, group_key="7", unique_key="u")
    (lease,) = await claim(client)
    assert lease["task_id"] == made["task_id"]
    again = await posted(client, 200, group_key="7", unique_key="u")
    assert (again["task_id"], again["status"]) == (made["task_id"], "running")
