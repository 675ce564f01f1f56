"""Keys, scopes, namespaces and quotas: every route, every role, every tenant."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from api.conftest import Api, started
from mainspring.api.routes import Route
from mainspring.domain.errors import AddressInUse, InvalidConfiguration
from mainspring.ports.access import Namespace

BODIES: dict[str, dict[str, Any]] = {
    "/v1/tasks": {"task_type": "t"},
    "/v1/tasks/batch": {"tasks": [{"task_type": "t"}]},
    "/v1/tasks/{task_id}/reschedule": {"scheduled_at": "2100-01-01T00:00:00Z"},
    "/v1/dead-letters/replay": {"task_type": "t"},
    "/v1/dead-letters/discard": {"task_type": "t", "reason": "r"},
    "/v1/schedules": {"name": "s", "task_type": "t", "cron": "0 9 * * *"},
    "/v1/schedules/preview": {"cron": "0 9 * * *"},
    "/v1/schedules/{name}": {"priority": 1},
    "/v1/schedules/{name}/backfill": {
        "start": "2027-01-01T00:00:00Z",
        "end": "2027-01-02T00:00:00Z",
    },
    "/v1/queues/{name}/limits": {"queue": {"rate": 100}},
    "/v1/queues/{name}/limits/groups/{group_key}": {"concurrency": 5},
    "/v1/leases": {"worker_id": "w", "task_types": ["t"]},
    "/v1/leases/heartbeat": {"worker_id": "w", "leases": [{"task_id": "", "fencing_token": 1}]},
    "/v1/leases/complete": {"worker_id": "w", "task_id": "", "fencing_token": 1},
    "/v1/leases/fail": {"worker_id": "w", "task_id": "", "fencing_token": 1, "error": "e"},
}
"""A good body for each route that needs one; a new route has to be added here."""


def request_of(route: Route, task_id: str) -> tuple[str, str, Any]:
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", task_id if name == "task_id" else "q")
    body = BODIES.get(route.path) if route.method in {"POST", "PATCH", "PUT"} else None
    if body is not None:
        body = {name: task_id if name == "task_id" else value for name, value in body.items()}
        if "leases" in body:
            body["leases"] = [{"task_id": task_id, "fencing_token": 1}]
    return route.method, path, body


async def ask(client: httpx.AsyncClient, route: Route, task_id: str) -> httpx.Response:
    method, path, body = request_of(route, task_id)
    if path.endswith("/events"):
        async with client.stream(method, path) as answer:
            return answer
    return (
        await client.request(method, path, json=body)
        if body
        else await client.request(method, path)
    )


async def test_a_foreign_task_is_the_same_as_a_missing_one(api: Api) -> None:
    async with (
        await api.client(namespace="acme") as acme,
        await api.client(namespace="other") as other,
        await api.client() as default,
    ):
        task_id = (await acme.post("/v1/tasks", json={"task_type": "t", "delay": 600})).json()[
            "task_id"
        ]
        missing = str(uuid4())
        for stranger in (other, default):
            for route in api.application.router.routes:
                if "task_id" not in route.parameters and "task_id" not in BODIES.get(
                    route.path, {}
                ):
                    continue
                theirs = await ask(stranger, route, task_id)
                nobodys = await ask(stranger, route, missing)
                assert theirs.status_code == nobodys.status_code == 404, route.path
                if not route.path.endswith("/events"):
                    told, known = theirs.json(), nobodys.json()
                    assert told["code"] == known["code"]
                    assert told["detail"].replace(task_id, missing) == known["detail"]
            held = await stranger.post(
                "/v1/leases/heartbeat",
                json={"worker_id": "w", "leases": [{"task_id": task_id, "fencing_token": 0}]},
            )
            assert held.json()["leases"][0]["held"] is False
            replay = await stranger.post("/v1/dead-letters/replay", json={"ids": [task_id]})
            assert replay.status_code == 404
        task = (await acme.get(f"/v1/tasks/{task_id}")).json()
        assert (task["status"], task["queue"]) == ("pending", "default")


async def test_lists_claims_and_counts_stay_in_the_namespace(api: Api) -> None:
    async with (
        await api.client(namespace="acme") as acme,
        await api.client(namespace="other") as other,
        await api.client() as default,
    ):
        for client, count in ((acme, 3), (other, 2), (default, 1)):
            batch = {"tasks": [{"task_type": "t", "queue": "q"}] * count}
            await client.post("/v1/tasks/batch", json=batch)
        await acme.post("/v1/queues/q/pause")
        for client, count in ((acme, 3), (other, 2), (default, 1)):
            listed = (await client.get("/v1/tasks")).json()["tasks"]
            assert len(listed) == count
            assert {task["queue"] for task in listed} == {"q"}
            (queue,) = (await client.get("/v1/queues")).json()["queues"]
            assert (queue["queue"], queue["ready"]) == ("q", count)
            assert queue["paused"] is (client is acme)
        cursor = (await acme.get("/v1/tasks", params={"limit": 1})).json()["cursor"]
        foreign = (await other.get("/v1/tasks", params={"cursor": cursor})).json()["tasks"]
        assert all(task["queue"] == "q" for task in foreign)
        assert len(foreign) <= 2
        claim = {"worker_id": "w", "task_types": ["t"], "limit": 10}
        assert (await acme.post("/v1/leases", json=claim)).json()["leases"] == []
        assert len((await other.post("/v1/leases", json=claim)).json()["leases"]) == 2
        assert len((await default.post("/v1/leases", json=claim)).json()["leases"]) == 1


async def test_one_idempotency_key_in_two_namespaces_makes_two_tasks(api: Api) -> None:
    async with await api.client(namespace="acme") as acme, await api.client() as default:
        sent = {"task_type": "t", "key": "same"}
        one = await acme.post("/v1/tasks", json=sent)
        two = await default.post("/v1/tasks", json=sent)
        again = await acme.post("/v1/tasks", json=sent)
        assert (one.status_code, two.status_code, again.status_code) == (201, 201, 200)
        assert one.json()["task_id"] == again.json()["task_id"] != two.json()["task_id"]
        task = (await acme.get(f"/v1/tasks/{one.json()['task_id']}")).json()
        assert task["key"] == "same"


async def test_nobody_can_name_the_queue_or_key_of_another_namespace(api: Api) -> None:
    async with await api.client() as default:
        for bad in ({"queue": "acme~q"}, {"key": "\x1facme\x1fk"}):
            answer = await default.post("/v1/tasks", json={"task_type": "t", **bad})
            assert answer.status_code == 422


async def test_a_key_for_some_queues_sees_no_other(api: Api) -> None:
    async with await api.client() as all_of_it, await api.client(queues=("mail",)) as mail:
        other = (await all_of_it.post("/v1/tasks", json={"task_type": "t"})).json()["task_id"]
        own = await mail.post("/v1/tasks", json={"task_type": "t", "queue": "mail"})
        refused = await mail.post("/v1/tasks", json={"task_type": "t"})
        assert own.status_code == 201
        assert (refused.status_code, refused.json()["field"]) == (403, "queue")
        assert (await mail.get(f"/v1/tasks/{other}")).status_code == 404
        assert len((await mail.get("/v1/tasks")).json()["tasks"]) == 1
        claim = {"worker_id": "w", "task_types": ["t"], "limit": 10}
        assert len((await mail.post("/v1/leases", json=claim)).json()["leases"]) == 1
        refused = await mail.post("/v1/leases", json={**claim, "queues": ["default"]})
        assert refused.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer " + "x" * 10_000)],
        [("authorization", "Basic {key}")],
        [("authorization", "Bearer {key}x")],
        [("authorization", "Bearer {wrong}")],
        [("authorization", "Bearer ms_0000000000000000_" + "A" * 43)],
        [("authorization", "Bearer {key}"), ("authorization", "Bearer {key}")],
        [("x-api-key", "{key}")],
        [("cookie", "key={key}")],
        [("x-http-method-override", "GET")],
    ],
)
async def test_whatever_is_no_key_is_told_the_same(
    api: Api, headers: list[tuple[str, str]]
) -> None:
    key = await api.key()
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    filled = [(name, value.format(key=key, wrong=wrong)) for name, value in headers]
    async with api.with_key(None) as client:
        answer = await client.get("/v1/tasks", headers=filled)
        assert answer.status_code == 401
        assert answer.json()["code"] == "unauthenticated"
        assert key not in answer.text
        query = await client.get("/v1/tasks", params={"key": key, "access_token": key})
        assert query.status_code == 401


async def test_revoked_and_expired_keys_are_refused_within_five_seconds(api: Api) -> None:
    key = await api.key()
    expiring = await api.key(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    async with api.with_key(key) as client, api.with_key(expiring) as late:
        assert (await late.get("/v1/tasks")).status_code == 401
        task_id = (await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})).json()[
            "task_id"
        ]
        async with client.stream("GET", f"/v1/tasks/{task_id}/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines)
            await api.store.revoke_key(key.split("_")[1])
            async with asyncio.timeout(5):
                async for _ in lines:
                    pass
        async with asyncio.timeout(5):
            while (await client.get("/v1/tasks")).status_code != 401:  # noqa: ASYNC110 - only time makes it so
                await asyncio.sleep(0.05)


async def test_no_table_holds_a_key(api: Api, database: str) -> None:
    key = await api.key()
    async with api.with_key(key) as client:
        await client.post("/v1/tasks", json={"task_type": "t"})
    secret = key.rpartition("_")[2] if key.count("_") == 2 else key[20:]
    connection = await asyncpg.connect(database)
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables "
            "WHERE schemaname = 'mainspring'"
        )
        text = ""
        for table in tables:
            rows = await connection.fetch(f"SELECT t::text AS row FROM {table['name']} t")
            text += "\n".join(row["row"] for row in rows)
        digest = hashlib.sha256(key[20:].encode()).hexdigest()
    finally:
        await connection.close()
    assert secret not in text
    assert digest in text


async def test_each_write_leaves_one_record_that_cannot_be_changed(api: Api, database: str) -> None:
    key = await api.key()
    async with api.with_key(key) as client:
        task_id = (await client.post("/v1/tasks", json={"task_type": "t", "delay": 9})).json()[
            "task_id"
        ]
        await client.post("/v1/tasks/batch", json={"tasks": [{"task_type": "t"}] * 5})
        await client.post(f"/v1/tasks/{task_id}/cancel")
        await client.post("/v1/queues/default/pause")
        await client.post("/v1/tasks", json={"task_type": ""})
        await client.get("/v1/tasks")
    # At once: the answers came after the records were on disk.
    records = [record for _, record in reversed(await api.store.audit(10))]
    assert [(record.action, record.count) for record in records] == [
        ("task.submit", 1),
        ("task.submit_batch", 5),
        ("task.cancel", 1),
        ("queue.pause", 1),
    ]
    assert {record.actor for record in records} == {key.split("_")[1]}
    assert records[0].subject == task_id
    assert records[0].address == "127.0.0.1"
    connection = await asyncpg.connect(database)
    try:
        for statement in (
            "UPDATE mainspring.audit SET actor = 'x'",
            "DELETE FROM mainspring.audit",
            "TRUNCATE mainspring.audit",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_quotas_turn_away_and_say_when_to_come_back(api: Api) -> None:
    await api.store.set_namespace(Namespace(name="small", pending_max=3))
    await api.store.set_namespace(Namespace(name="slow", submit_rate=2.0))
    async with (
        await api.client(namespace="small") as small,
        await api.client(namespace="slow") as slow,
        await api.client() as default,
    ):
        sent = {"task_type": "t"}
        statuses = [(await small.post("/v1/tasks", json=sent)).status_code for _ in range(4)]
        assert statuses == [201, 201, 201, 429]
        batch = await small.post("/v1/tasks/batch", json={"tasks": [sent] * 2})
        assert [item["status"] for item in batch.json()["results"]] == [429, 429]
        answers = [await slow.post("/v1/tasks", json=sent) for _ in range(10)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].json()["code"] == "quota_exceeded"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await default.post("/v1/tasks", json=sent)).status_code == 201


async def test_without_keys_only_this_machine_and_no_other_site(database: str) -> None:
    async with started(database, auth=False) as api, api.with_key(None) as client:
        sent = {"task_type": "t"}
        assert (await client.post("/v1/tasks", json=sent)).status_code == 201
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"host": "127.0.0.1.evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": api.url}, 201),
            ({"host": "localhost:8400"}, 201),
        ):
            answer = await client.post("/v1/tasks", json=sent, headers=headers)
            assert answer.status_code == status, headers
        form = await client.post("/v1/tasks", content=b"{}", headers={"content-type": "text/plain"})
        assert form.status_code == 415


async def test_an_open_server_without_keys_does_not_start(database: str) -> None:
    with pytest.raises(InvalidConfiguration, match="auth is off"):
        async with started(database, auth=False, host="0.0.0.0"):
            pass


async def test_a_port_in_use_is_one_sentence(api: Api, database: str) -> None:
    port = int(api.url.rpartition(":")[2])
    with pytest.raises(AddressInUse, match=f"port {port}"):
        async with started(database, port=port):
            pass


async def test_it_says_when_there_is_no_key_yet(api: Api, database: str) -> None:
    assert any("mainspring keys create" in line for line in api.said)
    await api.key()
    async with started(database) as again:
        assert not any("mainspring keys create" in line for line in again.said)
