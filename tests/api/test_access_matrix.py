"""Role x route x namespace, made from the OpenAPI document: nothing is open by accident."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from api.conftest import Api, started
from api.test_access import BODIES
from mainspring.ports.access import Scope

CANARY = "canary7f3a"
MORE_BODIES: dict[str, dict[str, Any]] = {
    "/graphql": {"query": "{ queues { queue } workers { workerId } tasks { tasks { taskId } } }"},
}
OPEN = {("get", "/health/live"), ("get", "/health/ready")}


class Operation(NamedTuple):
    """One verb of the document."""

    method: str
    path: str
    scope: str | None
    needs_body: bool
    parameters: tuple[str, ...]

    @property
    def is_stream(self) -> bool:
        return self.path.endswith("/events")

    async def ask(self, client: httpx.AsyncClient, value: str) -> httpx.Response:
        """Ask with this value in the place of each parameter of the path."""
        path = self.path
        for name in self.parameters:
            path = path.replace(f"{{{name}}}", value)
        body = {**BODIES, **MORE_BODIES}.get(self.path) if self.method != "get" else None
        assert body is not None or not self.needs_body, f"give {self.path} a good body in BODIES"
        if body is not None:
            known = {"task_id": str(uuid4()), "leases": [{"task_id": str(uuid4())}]}
            body = {name: known.get(name, part) for name, part in body.items()}
            if "leases" in body:
                body["leases"][0]["fencing_token"] = 1
        if self.is_stream:
            async with client.stream(self.method, path) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                return answer
        return await client.request(self.method, path, json=body)


@pytest.fixture
async def api(database: str) -> AsyncIterator[Api]:
    async with started(database, graphql=True) as running:
        yield running


async def operations(api: Api) -> list[Operation]:
    async with await api.client() as client:
        document = (await client.get("/v1/openapi.json")).json()
    return [
        Operation(
            method=method,
            path=path,
            scope=operation.get("x-scope"),
            needs_body=operation.get("requestBody", {}).get("required", False),
            parameters=tuple(
                part["name"] for part in operation["parameters"] if part["in"] == "path"
            ),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def test_the_document_has_all_routes_each_with_its_scope(api: Api) -> None:
    found = await operations(api)
    routes = api.application.router.routes
    assert {(one.method, one.path) for one in found} == {
        (route.method.lower(), route.path) for route in routes
    }
    assert {(one.method, one.path) for one in found if one.scope is None} == OPEN
    assert {one.scope for one in found} - {None} <= set(Scope)


@pytest.mark.parametrize("namespace", ["default", "acme"])
async def test_each_role_on_each_route(api: Api, namespace: str) -> None:
    found = await operations(api)
    async with api.with_key(None) as nobody, api.with_key("ms_" + "0" * 60) as wrong:
        for stranger in (nobody, wrong):
            for one in found:
                answer = await one.ask(stranger, str(uuid4()))
                assert answer.status_code == (200 if one.scope is None else 401), one
    for scope in Scope:
        async with await api.client(scope, namespace=namespace) as client:
            for one in found:
                answer = await one.ask(client, str(uuid4()))
                if one.scope in {None, scope}:
                    assert answer.status_code not in {401, 403}, (scope, one)
                else:
                    assert answer.status_code == 403, (scope, one)
                    assert answer.json()["code"] == "forbidden"
                assert answer.status_code < 500, (scope, one)


async def fill(client: httpx.AsyncClient) -> dict[str, str]:
    """Make one of everything, with a word that nobody else would use."""
    made: dict[str, str] = {}
    task = {"task_type": CANARY, "queue": CANARY, "payload": {"a": CANARY}, "max_retries": 0}
    waiting = await client.post("/v1/tasks", json={**task, "delay": 900, "key": CANARY})
    made["task_id"] = waiting.json()["task_id"]
    failing = {**task, "task_type": f"{CANARY}-fails"}
    await client.post("/v1/tasks", json=failing)
    claim = {"worker_id": CANARY, "task_types": [f"{CANARY}-fails"]}
    (lease,) = (await client.post("/v1/leases", json=claim)).json()["leases"]
    named = {name: lease[name] for name in ("task_id", "fencing_token")}
    end = {"worker_id": CANARY, "error": CANARY, **named}
    assert (await client.post("/v1/leases/fail", json=end)).json()["status"] == "failed"
    made["dead_letter"] = lease["task_id"]
    schedule = {"name": CANARY, "task_type": CANARY, "cron": "0 9 * * *"}
    assert (await client.post("/v1/schedules", json=schedule)).status_code == 201
    made["name"] = made["queue"] = CANARY
    return made


async def test_no_route_tells_one_namespace_of_another(api: Api) -> None:
    found = await operations(api)
    async with (
        await api.client(namespace="acme") as acme,
        await api.client(namespace="other") as other,
        await api.client(queues=("mail",), namespace="acme") as mail,
    ):
        made = await fill(acme)
        for stranger in (other, mail):
            for one in found:
                if one.method != "get" and not one.parameters and one.path != "/graphql":
                    continue
                if one.path.startswith("/v1/queues/") and one.method != "get":
                    # Pausing and limiting make a queue of that name in their own namespace.
                    continue
                if stranger is mail and (one.parameters == ("name",) or one.path == "/v1/audit"):
                    # These belong to the namespace, and it has the right to them.
                    continue
                ids = [made[name] for name in one.parameters] or [""]
                if "dead-letters" in one.path and one.parameters:
                    ids = [made["dead_letter"]]
                theirs = await one.ask(stranger, ids[0])
                missing = f"none{uuid4().hex[:6]}" if ids[0] == CANARY else str(uuid4())
                nobodys = await one.ask(stranger, missing)
                assert theirs.status_code == nobodys.status_code, one
                text = theirs.text.replace(ids[0], "") if ids[0] else theirs.text
                assert CANARY not in text, one
                if theirs.status_code == 404:
                    told, known = theirs.json(), nobodys.json()
                    assert told["code"] == known["code"], one
                    assert told["detail"].replace(ids[0], missing) == known["detail"], one
        assert (await acme.get(f"/v1/tasks/{made['task_id']}")).json()["status"] == "pending"
        assert (await acme.get(f"/v1/schedules/{CANARY}")).json()["status"] == "active"
        queues = (await acme.get("/v1/queues")).json()["queues"]
        assert [queue["paused"] for queue in queues if queue["queue"] == CANARY] == [False]
