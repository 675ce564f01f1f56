"""What the API accepts of http tasks and webhooks, and to whom deliveries belong."""

from typing import Any

import httpx
import pytest

from api.conftest import Api

HOOK = "https://example.com/hook"


async def test_a_delivery_belongs_to_the_namespace_of_its_task(api: Api) -> None:
    async with await api.client(namespace="acme") as acme, await api.client() as other:
        sent = {"task_type": "t", "webhook": {"url": HOOK, "events": ["cancelled"], "sign": "main"}}
        task_id = (await acme.post("/v1/tasks", json=sent)).json()["task_id"]
        cancelled = await acme.post(f"/v1/tasks/{task_id}/cancel", json={"reason": "no"})
        assert cancelled.status_code == 200
        query = {"task_type": "mainspring.webhook"}
        (delivery,) = (await acme.get("/v1/tasks", params=query)).json()["tasks"]
        assert (delivery["queue"], delivery["payload"]["sign"]) == ("webhooks", "main")
        body = delivery["payload"]["body"]
        assert (body["event"], body["task_id"], body["queue"]) == ("cancelled", task_id, "default")
        assert (await other.get("/v1/tasks", params=query)).json()["tasks"] == []


async def test_in_a_batch_each_webhook_is_its_own(api: Api) -> None:
    async with await api.client() as client:
        tasks = [{"task_type": "t", "webhook": HOOK}, {"task_type": "t"}, {"task_type": "t"}]
        tasks[2]["webhook"] = "http://127.1/"
        answer = (await client.post("/v1/tasks/batch", json={"tasks": tasks})).json()
        assert [result["status"] for result in answer["results"]] == [201, 201, 422]
        ids = [result["task_id"] for result in answer["results"][:2]]
        for task_id in ids:
            await client.post(f"/v1/tasks/{task_id}/cancel", json={})
        query = {"task_type": "mainspring.webhook"}
        (delivery,) = (await client.get("/v1/tasks", params=query)).json()["tasks"]
        assert delivery["payload"]["body"]["task_id"] == ids[0]


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({"task_type": "http"}, "payload.url"),
        ({"task_type": "http", "payload": {"url": "http://user@127.0.0.1/"}}, "payload.url"),
        (
            {"task_type": "http", "payload": {"url": HOOK, "headers": {"Host": "a"}}},
            "payload.headers.Host",
        ),
        (
            {"task_type": "http", "payload": {"url": HOOK, "headers": {"X": "a\r\nB: c"}}},
            "payload.headers.X",
        ),
        ({"task_type": "mainspring.webhook", "payload": {"url": HOOK}}, "task_type"),
        ({"task_type": "t", "webhook": "file:///etc/passwd"}, "webhook"),
        ({"task_type": "t", "webhook": {"url": HOOK, "events": ["started"]}}, "webhook.events"),
        ({"task_type": "t", "webhook": {"url": HOOK, "secret": "s"}}, "webhook.secret"),
        ({"task_type": "t", "webhook": [HOOK]}, "webhook"),
    ],
    ids=ascii,
)
async def test_what_is_wrong_is_named(
    client: httpx.AsyncClient, task: dict[str, Any], field: str
) -> None:
    answer = await client.post("/v1/tasks", json=task)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
