"""GraphQL: the same data under the same rules, and bounds on what one question may ask."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from graphql import get_introspection_query

from api.conftest import Api, started
from mainspring.ports.access import Scope
from mainspring.wiring import graphql as wiring

STREAM = {"accept": "text/event-stream"}


@pytest.fixture
async def api(database: str) -> AsyncIterator[Api]:
    async with started(database, graphql=True) as running:
        yield running


async def ask(client: httpx.AsyncClient, query: str, **variables: Any) -> dict[str, Any]:
    answer = await client.post("/graphql", json={"query": query, "variables": variables})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    told: dict[str, Any] = answer.json()
    return told


async def refused(client: httpx.AsyncClient, query: str, **variables: Any) -> str:
    kind = "application/graphql-response+json"
    answer = await client.post(
        "/graphql", json={"query": query, "variables": variables}, headers={"accept": kind}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (400, kind), answer.text
    assert "data" not in answer.json()
    code: str = answer.json()["errors"][0]["extensions"]["code"]
    return code


async def failed_task(client: httpx.AsyncClient) -> str:
    await client.post("/v1/tasks", json={"task_type": "t", "max_retries": 0, "payload": {"a": 1.0}})
    claim = {"worker_id": "w", "task_types": ["t"]}
    lease = (await client.post("/v1/leases", json=claim)).json()["leases"][0]
    named = {"task_id": lease["task_id"], "fencing_token": lease["fencing_token"]}
    failed = await client.post("/v1/leases/fail", json={"worker_id": "w", "error": "e", **named})
    assert failed.status_code == 200
    task_id: str = lease["task_id"]
    return task_id


async def test_everything_is_seen_as_in_the_rest_api(client: httpx.AsyncClient) -> None:
    task_id = await failed_task(client)
    made = {"name": "s", "task_type": "t", "cron": "0 9 * * *", "timezone": "Europe/Paris"}
    made |= {"group_key": "acme", "webhook": "https://example.com/hook"}
    assert (await client.post("/v1/schedules", json=made)).status_code == 201
    told = await ask(
        client,
        """query Everything($id: UUID!) {
          task(id: $id) { taskId status payload lastError fencingToken createdAt
                          attempts { attempt kind error endedAt } }
          tasks(status: FAILED, limit: 10) { tasks { taskId level } cursor }
          deadLetters(taskType: "t") { tasks { taskId } }
          schedules { name cronExpression skipped nextAt waiting }
          schedule(name: "s") { name timezone spec groupKey uniqueKey webhook { url events } }
          history(name: "s") { nominalAt }
          queues { queue paused ready }
          workers { workerId slots queues }
          stats { deadLetters turnedAway levels { level accepted } }
        }""",
        id=task_id,
    )
    assert "errors" not in told
    data = told["data"]
    rest = (await client.get(f"/v1/tasks/{task_id}")).json()
    assert data["task"]["payload"] == rest["payload"] == {"a": 1.0}
    assert data["task"]["createdAt"] == rest["created_at"]
    assert data["task"]["status"] == "FAILED"
    assert data["task"]["attempts"][0] == {
        "attempt": 1,
        "kind": "ERROR",
        "error": "e",
        "endedAt": rest["attempts"][0]["ended_at"],
    }
    assert data["tasks"]["tasks"] == [{"taskId": task_id, "level": "NORMAL"}]
    assert data["deadLetters"]["tasks"] == [{"taskId": task_id}]
    assert data["schedules"][0]["name"] == data["schedule"]["name"] == "s"
    assert data["schedule"]["timezone"] == "Europe/Paris"
    assert (data["schedule"]["groupKey"], data["schedule"]["uniqueKey"]) == ("acme", None)
    assert data["schedule"]["webhook"]["url"] == made["webhook"]
    assert "CANCELLED" in data["schedule"]["webhook"]["events"]
    assert data["history"] == []
    assert data["queues"] == [{"queue": "default", "paused": False, "ready": 0}]
    assert data["stats"]["deadLetters"] == 1


async def test_groups_are_shown_and_listed(client: httpx.AsyncClient) -> None:
    keys = {"group_key": "7", "unique_key": "u"}
    await client.post("/v1/tasks", json={"task_type": "t", "delay": 60, **keys})
    await client.post("/v1/tasks", json={"task_type": "t"})
    query = '{ tasks(groupKey: "7") { tasks { groupKey uniqueKey held status } } }'
    told = await ask(client, query)
    assert told["data"]["tasks"]["tasks"] == [
        {"groupKey": "7", "uniqueKey": "u", "held": False, "status": "PENDING"}
    ]


async def test_pages_follow_one_another(client: httpx.AsyncClient) -> None:
    await client.post("/v1/tasks/batch", json={"tasks": [{"task_type": "t"}] * 5})
    seen: list[str] = []
    cursor = None
    while True:
        told = await ask(
            client,
            "query($c: String) { tasks(limit: 2, cursor: $c) { tasks { taskId } cursor } }",
            c=cursor,
        )
        page = told["data"]["tasks"]
        seen.extend(task["taskId"] for task in page["tasks"])
        cursor = page["cursor"]
        if cursor is None:
            break
    assert len(set(seen)) == len(seen) == 5


async def test_errors_have_a_code_and_tell_nothing_from_inside(client: httpx.AsyncClient) -> None:
    missing = str(uuid4())
    told = await ask(
        client,
        """query($id: UUID!) {
          task(id: $id) { taskId }
          tasks(limit: 201) { cursor }
          deadLetters(cursor: "x") { cursor }
          schedule(name: "none") { name }
          queues { queue }
        }""",
        id=missing,
    )
    codes = {error["path"][0]: error["extensions"]["code"] for error in told["errors"]}
    assert codes == {
        "task": "task_not_found",
        "tasks": "invalid_value",
        "deadLetters": "invalid_value",
        "schedule": "schedule_not_found",
    }
    assert told["data"]["queues"] == []
    for query in ("{ nothing }", "{ tasks { tasks { taskId ", 'query { task(id: "x") { taskId } }'):
        told = await ask(client, query)
        assert "Traceback" not in str(told)
        assert "strawberry" not in str(told)
        code = told["errors"][0]["extensions"]["code"]
        assert code in {"graphql_invalid", "invalid_value"}, query


async def test_one_namespace_sees_nothing_of_another(api: Api) -> None:
    query = """query($id: UUID!) {
      task(id: $id) { taskId } tasks { tasks { taskId } } queues { queue }
      schedules { name } workers { workerId } stats { queues workers levels { ready } }
    }"""
    async with (
        await api.client(namespace="acme") as acme,
        await api.client(namespace="other") as other,
        await api.client(queues=("mail",)) as mail,
    ):
        made = await acme.post("/v1/tasks", json={"task_type": "t", "queue": "secret"})
        made = made.json()["task_id"]
        await acme.post("/v1/schedules", json={"name": "s", "task_type": "t", "every": 3600})
        await acme.post("/v1/leases", json={"worker_id": "w", "task_types": ["none"]})
        own = await ask(acme, query, id=made)
        assert "errors" not in own
        assert own["data"]["tasks"]["tasks"] == [{"taskId": made}]
        for stranger in (other, mail):
            theirs = await ask(stranger, query, id=made)
            nobodys = await ask(stranger, query, id=str(uuid4()))
            assert theirs["data"] == nobodys["data"]
            assert theirs["data"]["tasks"]["tasks"] == theirs["data"]["queues"] == []
            assert theirs["data"]["schedules"] == theirs["data"]["workers"] == []
            assert [error["extensions"] for error in theirs["errors"]] == [
                error["extensions"] for error in nobodys["errors"]
            ]
            stream = await stranger.post(
                "/graphql",
                json={"query": f'subscription {{ taskEvents(id: "{made}") {{ event }} }}'},
                headers=STREAM,
            )
            assert "task_not_found" in stream.text


async def test_who_may_not_read_may_not_ask_even_for_the_schema(api: Api) -> None:
    introspection = {"query": get_introspection_query()}
    async with api.with_key(None) as nobody:
        assert (await nobody.post("/graphql", json=introspection)).status_code == 401
    async with await api.client(Scope.SUBMIT, Scope.WORK, Scope.ADMIN) as writer:
        assert (await writer.post("/graphql", json=introspection)).status_code == 403
    async with await api.client(Scope.READ) as reader:
        answer = await reader.post("/graphql", json=introspection)
        names = {kind["name"] for kind in answer.json()["data"]["__schema"]["types"]}
        assert {"Task", "Attempt", "Schedule", "TaskEvent", "Stats", "WorkerState"} <= names


async def test_only_json_by_post(client: httpx.AsyncClient) -> None:
    query = "{ queues { queue } }"
    assert (await client.get("/graphql", params={"query": query})).status_code == 405
    for content_type in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
        answer = await client.post(
            "/graphql", content=f"query={query}", headers={"content-type": content_type}
        )
        assert answer.status_code == 415
    assert (await client.post("/graphql", json=[{"query": query}])).status_code == 422
    for body in ({}, {"query": ""}, {"query": 5}, {"query": query, "id": "x"}):
        assert (await client.post("/graphql", json=body)).status_code == 422, body
    both = "query A { queues { queue } } query B { workers { workerId } }"
    assert await refused(client, both) == "graphql_invalid"
    named = {"query": both, "operationName": "A"}
    assert (await client.post("/graphql", json=named)).json() == {"data": {"queues": []}}


def chained(count: int, fields: str, kind: str = "Task") -> str:
    """Fragments that each use the next one twice: 2^count fields."""
    parts = [f"fragment f{n} on {kind} {{ ...f{n + 1} ...f{n + 1} }}" for n in range(count)]
    return " ".join([*parts, f"fragment f{count} on {kind} {{ {fields} }}"])


LIMITS = {
    "depth": "{ __typename " + "tasks { " * 9 + "cursor" + " }" * 9 + " }",
    "aliases": "{ " + " ".join(f"a{n}: __typename" for n in range(31)) + " }",
    "aliases in fragments": "{ queues { queue } ...f0 } "
    + chained(6, "a: __typename", kind="Query"),
    "tokens": "{ " + "__typename " * 2000 + "}",
    "page sizes": "{ a: tasks(limit: 200) { tasks { attempts { error } } }"
    " b: tasks(limit: 200) { tasks { attempts { error } } }"
    " c: tasks(limit: 200) { tasks { attempts { error } } } }",
    "page size": "{ tasks(limit: 1000000000) { tasks { taskId } } }",
    "nesting": "{ " + "... { " * 600 + "__typename" + " }" * 600 + " }",
    "brackets": "{ tasks(status: " + "[" * 1500 + " }",
    "fields": "{ " + "a { " * 900 + " }" * 900 + " }",
    "fragments": "{ tasks { tasks { ...f0 } } } " + chained(100, "taskId"),
}
FINE = {
    "usual": "{ tasks(limit: 200) { tasks { taskId attempts { error } } cursor } }",
    "fragments": "{ tasks { tasks { ...f0 } } } " + chained(20, "taskId"),
    "eight": "{ tasks { tasks { attempts { error } } } }",
}
WRONG = {
    "circle": "{ tasks { tasks { ...a } } } fragment a on Task { ...b } "
    "fragment b on Task { ...a }",
    "unknown directive": "{ queues @defer { queue } }",
    "variable": "query($x: Nothing) { queues { queue } }",
    "mutation": "mutation { x }",
    "deep introspection": "{ __schema { types { fields { type { fields { type { fields { type "
    "{ fields { name } } } } } } } } } }",
    "subscription": f'subscription {{ taskEvents(id: "{uuid4()}") {{ id }} }}',
    "unicode": "{ \u202e }",
    "conflict": "{ a: __typename a: queues { queue } }",
}


async def test_what_asks_for_too_much_is_turned_away_at_once(client: httpx.AsyncClient) -> None:
    for name, query in LIMITS.items():
        async with asyncio.timeout(1):
            code = await refused(client, query)
        by_parser = {"tokens", "nesting", "brackets", "fields"}
        wanted = "graphql_invalid" if name in by_parser else "graphql_too_costly"
        assert code == wanted, name
    for name, query in FINE.items():
        assert "errors" not in await ask(client, query), name
    for name, query in WRONG.items():
        async with asyncio.timeout(1):
            assert await refused(client, query) == "graphql_invalid", name
    page = "query($n: Int!) { tasks(limit: $n) { tasks { attempts { error } } } }"
    assert await refused(client, page, n=1000) == "graphql_too_costly"
    assert "errors" not in await ask(client, page, n=10)


async def events(
    client: httpx.AsyncClient, query: str, variables: dict[str, Any]
) -> AsyncIterator[tuple[str, Any]]:
    body = {"query": query, "variables": variables}
    async with client.stream("POST", "/graphql", json=body, headers=STREAM) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        name = ""
        async for line in answer.aiter_lines():
            kind, _, text = line.partition(": ")
            if kind == "event":
                name = text
            elif kind == "data":
                yield name, json.loads(text) if text else None


FOLLOW = (
    "subscription($id: UUID!, $after: String) { taskEvents(id: $id, after: $after) { id event } }"
)


async def test_a_task_is_followed_until_it_ends(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})
    task_id = made.json()["task_id"]
    told = events(client, FOLLOW, {"id": task_id})
    async with asyncio.timeout(10):
        name, first = await anext(told)
        assert (name, first["data"]["taskEvents"]["event"]) == ("next", "pending")
        await client.post(f"/v1/tasks/{task_id}/cancel")
        rest = [event async for event in told]
    assert rest[0][1]["data"]["taskEvents"]["event"] == "cancelled"
    assert rest[1:] == [("complete", None)]
    after = first["data"]["taskEvents"]["id"]
    again = [event async for event in events(client, FOLLOW, {"id": task_id, "after": after})]
    assert again == rest
    query = [event async for event in events(client, "{ queues { queue } }", {})]
    assert query == [("next", {"data": {"queues": [{"queue": "default"}]}}), ("complete", None)]
    wrong = [event async for event in events(client, "{ nothing }", {})]
    assert wrong[0][1]["errors"][0]["extensions"]["code"] == "graphql_invalid"


async def test_a_subscription_ends_with_its_key_and_with_its_client(api: Api) -> None:
    key = await api.key()
    async with api.with_key(key) as client:
        made = await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})
        told = events(client, FOLLOW, {"id": made.json()["task_id"]})
        async with asyncio.timeout(8):
            await anext(told)
            await api.store.revoke_key(key.split("_")[1])
            assert [event async for event in told] == [("complete", None)]
    doorkeeper = api.application._doorkeeper
    body = {"query": FOLLOW, "variables": {"id": made.json()["task_id"]}}
    async with await api.client() as client:
        async with client.stream("POST", "/graphql", json=body, headers=STREAM) as answer:
            await anext(answer.aiter_lines())
            assert doorkeeper.streams == 1
        async with asyncio.timeout(5):
            while doorkeeper.streams:
                await client.get("/health/live")


async def test_off_and_not_installed_are_said(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(database) as api, await api.client() as client:
        answer = await client.post("/graphql", json={"query": "{ queues { queue } }"})
        assert answer.status_code == 404
        assert "MAINSPRING_GRAPHQL" in answer.json()["detail"]
    monkeypatch.setitem(sys.modules, "strawberry", None)
    for name in [name for name in sys.modules if name.startswith("mainspring.api.graphql.")]:
        if name.rpartition(".")[2] in {"execution", "queries", "types"}:
            monkeypatch.delitem(sys.modules, name)
    async with started(database, graphql=True) as api, await api.client() as client:
        answer = await client.post("/graphql", json={"query": "{ queues { queue } }"})
        assert answer.status_code == 404
        assert "mainspring[graphql]" in answer.json()["detail"]
    assert wiring.__doc__


def test_the_library_is_not_loaded_unless_it_is_asked_for() -> None:
    script = (
        "import sys, mainspring.wiring.api; print({'strawberry', 'graphql'} & set(sys.modules))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "set()"
