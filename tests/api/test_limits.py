"""Limits of queues and groups through REST, gRPC and GraphQL."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
import pytest_asyncio

from api.conftest import Api
from api.rpc import Rpc, rpc_shared
from fixtures.postgres import PostgresServer
from mainspring.ports.access import AuditFilter, Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = {"concurrency": None, "rate": None, "burst": None}
MAIL = "/v1/queues/mail/limits"
ACME = f"{MAIL}/groups/acme%2Feu"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(postgres_server: PostgresServer) -> AsyncIterator[Rpc]:
    async with rpc_shared(postgres_server, graphql=True) as running:
        yield running


@pytest.fixture
def rpc(server: Rpc) -> Rpc:
    return server.apart()


@pytest.fixture
def api(rpc: Rpc) -> Api:
    return rpc.api


@pytest_asyncio.fixture(loop_scope="module")
async def client(rpc: Rpc) -> AsyncIterator[httpx.AsyncClient]:
    async with await rpc.api.client(namespace=rpc.namespace) as opened:
        yield opened


async def test_they_are_set_seen_and_taken_away(client: httpx.AsyncClient) -> None:
    none = {"queue": NOTHING, "group": NOTHING, "groups": []}
    assert (await client.get(MAIL)).json() == none
    body: dict[str, Any] = {"queue": {"concurrency": 50, "rate": "30/m"}}
    told = await client.put(MAIL, json=body)
    assert told.status_code == 200
    assert told.json()["queue"] == {"concurrency": 50, "rate": 0.5, "burst": None}
    told = await client.put(MAIL, json={"group": {"rate": 100, "burst": 250}})
    assert told.json()["group"] == {"concurrency": None, "rate": 100.0, "burst": 250}
    own = await client.put(ACME, json={"concurrency": 9})
    assert own.json() == {"group_key": "acme/eu", "limit": {**NOTHING, "concurrency": 9}}
    assert (await client.get(MAIL)).json() == {
        "queue": {"concurrency": 50, "rate": 0.5, "burst": None},
        "group": {"concurrency": None, "rate": 100.0, "burst": 250},
        "groups": [own.json()],
    }
    (queue,) = (await client.get("/v1/queues")).json()["queues"]
    assert (queue["queue"], queue["held"]) == ("mail", 0)
    assert queue["limit"] == {"concurrency": 50, "rate": 0.5, "burst": None}
    assert queue["group_limit"] == {"concurrency": None, "rate": 100.0, "burst": 250}
    assert (await client.delete(ACME)).json() == {"group_key": "acme/eu"}
    assert (await client.delete(ACME)).status_code == 200
    assert (await client.put(MAIL, json={"queue": {}, "group": None})).json() == none
    (queue,) = (await client.get("/v1/queues")).json()["queues"]
    assert (queue["limit"], queue["group_limit"]) == (None, None)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "queue"),
        ({"whole": {}}, 422, None),
        ({"queue": {"conc": 1}}, 422, "queue"),
        ({"queue": 5}, 422, "queue"),
        ({"queue": {"concurrency": 0}}, 422, "queue.concurrency"),
        ({"queue": {"concurrency": 100_001}}, 422, "queue.concurrency"),
        ({"queue": {"concurrency": True}}, 422, "queue.concurrency"),
        ({"queue": {"concurrency": 1.5}}, 422, "queue.concurrency"),
        ({"group": {"rate": 0}}, 422, "group.rate"),
        ({"group": {"rate": -1}}, 422, "group.rate"),
        ({"group": {"rate": 1_000_001}}, 422, "group.rate"),
        ({"group": {"rate": "0/s"}}, 422, "group.rate"),
        ({"group": {"rate": "fast"}}, 422, "group.rate"),
        ({"group": {"rate": "1" * 30}}, 422, "group.rate"),
        ({"group": {"rate": []}}, 422, "group.rate"),
        ({"group": {"burst": 5}}, 422, "group.burst"),
        ({"group": {"rate": 1, "burst": 0}}, 422, "group.burst"),
        ({"group": {"rate": None, "burst": 5}}, 422, "group.burst"),
        ({"group": {"rate": 1, "burst": 1_000_001}}, 422, "group.burst"),
    ],
)
async def test_bad_limits_name_their_field(
    client: httpx.AsyncClient, body: Any, status: int, field: str | None
) -> None:
    told = await client.put(MAIL, json=body)
    assert (told.status_code, told.json().get("field")) == (status, field), told.text
    if isinstance(body.get("group"), dict):
        alone = await client.put(ACME, json=body["group"])
        assert (alone.status_code, alone.json()["field"]) == (status, str(field)[6:]), alone.text
    assert (await client.get(MAIL)).json()["groups"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/queues/acme~q/limits", 422),
        ("/v1/queues/a%20b/limits", 422),
        (f"{MAIL}/groups/{'k' * 256}", 422),
        (f"{MAIL}/groups/a%0Ab", 422),
        (f"{MAIL}/groups/a%FF", 400),
        (f"{MAIL}/groups/", 404),
        (f"{MAIL}/groups", 404),
    ],
)
async def test_bad_names_and_keys(client: httpx.AsyncClient, path: str, status: int) -> None:
    body: dict[str, Any] = {"rate": 1} if "groups" in path else {"queue": {"rate": 1}}
    assert (await client.put(path, json=body)).status_code == status
    if "groups" in path:
        assert (await client.delete(path)).status_code == status


async def test_each_namespace_has_limits_of_its_own(api: Api, rpc: Rpc) -> None:
    async with (
        await api.client(namespace=rpc.namespace) as acme,
        await api.client(namespace=f"{rpc.namespace}-2") as other,
        await api.client(namespace=rpc.namespace, queues=("web",)) as web,
        await api.client(Scope.READ, Scope.SUBMIT, namespace=rpc.namespace) as plain,
        await api.client(Scope.ADMIN, namespace=rpc.namespace) as admin,
    ):
        await acme.put(MAIL, json={"queue": {"concurrency": 1}})
        await acme.put(ACME, json={"concurrency": 2})
        assert (await other.get(MAIL)).json()["queue"] == NOTHING
        assert (await other.get("/v1/queues")).json()["queues"] == []
        await other.put(MAIL, json={"queue": {"concurrency": 7}})
        await other.delete(ACME)
        limits = (await acme.get(MAIL)).json()
        assert (limits["queue"]["concurrency"], len(limits["groups"])) == (1, 1)
        for method, path in (("GET", MAIL), ("PUT", MAIL), ("PUT", ACME), ("DELETE", ACME)):
            body: Any = ({"queue": {}} if path is MAIL else {}) if method == "PUT" else None
            told = await web.request(method, path, json=body)
            assert (told.status_code, told.json()["code"]) == (403, "forbidden")
            told = await plain.request(method, path, json=body)
            assert told.status_code == (200 if method == "GET" else 403)
            told = await admin.request(method, path, json=body)
            assert told.status_code == (403 if method == "GET" else 200)


async def test_each_change_is_on_record(api: Api, rpc: Rpc, client: httpx.AsyncClient) -> None:
    await client.put(MAIL, json={"queue": {"rate": 1}})
    await client.put(ACME, json={"rate": 1})
    await client.delete(ACME)
    await client.get(MAIL)
    records = await api.store.audit(10, which=AuditFilter(namespace=rpc.namespace))
    assert [(record.action, record.subject) for _, record in reversed(records)] == [
        ("queue.limit", "mail"),
        ("queue.limit_group", "mail acme/eu"),
        ("queue.unlimit_group", "mail acme/eu"),
    ]


async def test_grpc_says_the_same(rpc: Rpc) -> None:
    async with rpc.client() as client:
        none = await client.call("QueueService.GetLimits", name="mail")
        assert (none.queue.ListFields(), none.group.ListFields(), list(none.groups)) == ([], [], [])
        set_ = await client.call(
            "QueueService.SetLimits", name="mail", queue={"concurrency": 5}, group={"rate": 0.5}
        )
        assert (set_.queue.concurrency, set_.group.rate) == (5, 0.5)
        own = await client.call(
            "QueueService.SetGroupLimit", name="mail", group_key="acme/eu", rate=2, burst=9
        )
        assert (own.group_key, own.limit.rate, own.limit.burst) == ("acme/eu", 2, 9)
        kept = await client.call("QueueService.SetLimits", name="mail", queue={})
        assert not kept.queue.ListFields()
        assert (kept.group.rate, kept.groups[0].limit.rate) == (0.5, 2)
        (queue,) = (await client.call("QueueService.List")).queues
        assert (queue.queue, queue.held, queue.group_limit.rate) == ("mail", 0, 0.5)
        assert not queue.HasField("limit")
        dropped = await client.call("QueueService.DropGroupLimit", name="mail", group_key="acme/eu")
        assert dropped.group_key == "acme/eu"
        assert (await client.call("QueueService.Pause", name="mail")).paused is True
        assert (await client.call("QueueService.Resume", name="mail")).paused is False
        refused = await client.refused("QueueService.SetLimits", name="mail")
        assert (refused.status, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT.name, "queue")
        refused = await client.refused(
            "QueueService.SetLimits", name="mail", group={"concurrency": 0}
        )
        assert (refused.code, refused.field) == ("invalid_value", "group.concurrency")
        refused = await client.refused("QueueService.SetGroupLimit", name="mail", burst=1)
        assert refused.field == "burst"
        refused = await client.refused("QueueService.Resume", name="never")
        assert refused.code == "queue_not_found"


async def test_graphql_shows_them(client: httpx.AsyncClient) -> None:
    await client.put(MAIL, json={"queue": {"concurrency": 5}})
    await client.put(ACME, json={"rate": 2})
    query = """{
      queues { queue held limit { concurrency } groupLimit { rate } }
      queueLimits(name: "mail") { queue { concurrency } groups { groupKey limit { rate } } }
    }"""
    told = (await client.post("/graphql", json={"query": query})).json()
    assert told == {
        "data": {
            "queues": [
                {"queue": "mail", "held": 0, "limit": {"concurrency": 5}, "groupLimit": None}
            ],
            "queueLimits": {
                "queue": {"concurrency": 5},
                "groups": [{"groupKey": "acme/eu", "limit": {"rate": 2.0}}],
            },
        }
    }


async def test_workers_of_any_language_are_held_to_them(client: httpx.AsyncClient) -> None:
    await client.put(MAIL, json={"group": {"concurrency": 1}})
    tasks = [{"task_type": "t", "queue": "mail", "group_key": key} for key in "aaab"]
    assert (await client.post("/v1/tasks/batch", json={"tasks": tasks})).json()["stored"] == 4
    claim = {"worker_id": "w", "task_types": ["t"], "limit": 10}
    first, second = (await client.post("/v1/leases", json=claim)).json()["leases"]
    assert (await client.post("/v1/leases", json=claim)).json()["leases"] == []
    (queue,) = (await client.get("/v1/queues")).json()["queues"]
    assert (queue["ready"], queue["held"], queue["running"]) == (2, 2, 2)
    listed = (await client.get("/v1/tasks", params={"group_key": "a"})).json()["tasks"]
    assert sorted((task["status"], task["held"]) for task in listed) == [
        ("pending", True),
        ("pending", True),
        ("running", False),
    ]
    ids = {task["task_id"] for task in listed}
    (done,) = (lease for lease in (first, second) if lease["task_id"] in ids)
    named = {name: done[name] for name in ("task_id", "fencing_token")}
    await client.post("/v1/leases/complete", json={"worker_id": "w", **named})
    (third,) = (await client.post("/v1/leases", json=claim)).json()["leases"]
    assert third["task_id"] in ids - {done["task_id"]}
    await client.put(MAIL, json={"group": {}})
    assert len((await client.post("/v1/leases", json=claim)).json()["leases"]) == 1
