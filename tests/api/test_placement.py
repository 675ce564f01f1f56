"""Labels over REST: asked for, offered, and shown where nobody offers them."""

from typing import Any

import httpx

from api.conftest import Api
from api.test_leases import claim
from mainspring.adapters.system import SystemClock
from mainspring.api.metrics import Metrics
from mainspring.core.shedding import Shedder

GPU = ["gpu", "region=eu"]


async def submitted(client: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await client.post("/v1/tasks", json={"task_type": "t", **more})
    assert answer.status_code in {200, 201}, answer.text
    task: dict[str, Any] = answer.json()
    return task


async def read(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_tenant_asks_for_labels_and_sees_them(api: Api) -> None:
    async with await api.client(namespace="acme") as tenant, await api.client() as other:
        task = await submitted(tenant, queue="reports", labels=GPU[::-1], key="k")
        assert (task["queue"], task["labels"]) == ("reports", GPU)
        again = await submitted(tenant, queue="reports", labels=GPU, key="k")
        assert (again["task_id"], again["is_new"]) == (task["task_id"], False)
        differs = {"task_type": "t", "queue": "reports", "key": "k"}
        assert (await tenant.post("/v1/tasks", json=differs)).status_code == 409
        path = f"/v1/tasks/{task['task_id']}"
        shown = await read(tenant, path)
        assert (shown["queue"], shown["labels"]) == ("reports", GPU)
        assert (shown["placement"], shown["ready"]) == ("no_worker", True)
        assert (await read(tenant, "/v1/stats"))["unplaceable"] == 1
        assert (await read(other, "/v1/stats"))["unplaceable"] == 0
        metrics = Metrics(api.store, api.store, Shedder(api.store, SystemClock()), SystemClock())
        await metrics.look()
        assert b"mainspring_unplaceable_tasks 1.0" in metrics.text()
        (queue,) = (await read(tenant, "/v1/queues"))["queues"]
        (branch,) = queue["branches"]
        assert (queue["queue"], branch["labels"], branch["workers"]) == ("reports", GPU, 0)
        assert branch["unplaceable"] == queue["ready"] == 1
        listed = await read(tenant, "/v1/tasks?queue=reports")
        assert [one["task_id"] for one in listed["tasks"]] == [task["task_id"]]

        assert await claim(tenant) == await claim(tenant, labels=["gpu"]) == []
        assert await claim(other, labels=GPU) == []
        (lease,) = await claim(tenant, labels=[*GPU, "fast"])
        assert (lease["task_id"], lease["queue"]) == (task["task_id"], "reports")
        assert (await read(tenant, path))["placement"] is None
        (worker,) = (await read(tenant, "/v1/workers"))["workers"]
        assert (worker["labels"], worker["task_types"]) == (["fast", *GPU], ["t"])


async def test_a_key_for_a_queue_is_one_for_its_branches(api: Api) -> None:
    async with await api.client(queues=("mine",)) as client:
        await submitted(client, queue="mine", labels=["gpu"])
        refused = await client.post("/v1/tasks", json={"task_type": "t", "labels": ["gpu"]})
        assert refused.status_code == 403
        assert len(await claim(client, labels=["gpu"])) == 1


async def test_other_labels_are_refused(client: httpx.AsyncClient) -> None:
    for labels in (["a b"], ["k=1", "k=2"], "gpu", [7], ["y" * 64], ["gpu"] * 9):
        answer = await client.post("/v1/tasks", json={"task_type": "t", "labels": labels})
        assert (answer.status_code, answer.json()["field"]) == (422, "labels")


async def test_runs_of_a_schedule_need_what_it_names(api: Api) -> None:
    async with await api.client(namespace="acme") as client:
        made = await client.post(
            "/v1/schedules",
            json={"name": "s", "task_type": "t", "every": 3600, "labels": ["gpu"], "queue": "q"},
        )
        assert made.status_code == 201, made.text
        run = await client.post("/v1/schedules/s/trigger", json={})
        assert run.status_code in {200, 201}, run.text
        shown = await read(client, f"/v1/tasks/{run.json()['task_id']}")
        assert (shown["queue"], shown["labels"]) == ("q", ["gpu"])
        changed = await client.patch("/v1/schedules/s", json={"queue": "other"})
        assert changed.status_code == 200, changed.text
        schedule = await read(client, "/v1/schedules/s")
        assert (schedule["queue"], schedule["labels"]) == ("other", ["gpu"])
