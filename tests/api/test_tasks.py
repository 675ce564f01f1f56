import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx

from mainspring.domain.task import NewTask


async def test_a_submitted_task_is_there_and_has_the_fields_of_the_contract(
    client: httpx.AsyncClient,
) -> None:
    sent = {"task_type": "send_email", "payload": {"user_id": 1}, "priority": 3, "timeout": 30}
    answer = await client.post("/v1/tasks", json=sent)
    assert answer.status_code == 201
    assert answer.json()["is_new"] is True
    assert answer.headers["location"] == f"/v1/tasks/{answer.json()['task_id']}"
    task = (await client.get(answer.headers["location"])).json()
    wanted = {
        "task_type": "send_email",
        "payload": {"user_id": 1},
        "priority": 3,
        "timeout": 30.0,
        "status": "pending",
        "schedule_type": "one_time",
        "max_retries": 3,
        "retry_backoff": "exponential",
        "attempt_count": 0,
        "queue": "default",
        "level": "high",
        "attempts": [],
    }
    assert {name: task[name] for name in wanted} == wanted
    assert UUID(task["task_id"]).version == 7


async def test_all_options_arrive(client: httpx.AsyncClient) -> None:
    at = datetime.now(UTC) + timedelta(hours=2)
    sent = {
        "task_type": "t",
        "queue": "mail",
        "scheduled_at": at.isoformat(),
        "max_retries": 7,
        "retry_backoff": {"kind": "linear", "base": 5, "max": 60},
        "key": "k",
    }
    task_id = (await client.post("/v1/tasks", json=sent)).json()["task_id"]
    task = (await client.get(f"/v1/tasks/{task_id}")).json()
    assert datetime.fromisoformat(task["scheduled_at"]) == at
    assert (task["queue"], task["max_retries"], task["key"]) == ("mail", 7, "k")
    assert task["retry_backoff"] == "linear"


async def test_one_key_makes_one_task(client: httpx.AsyncClient) -> None:
    sent = {"task_type": "t", "payload": {"a": 1}}
    header = {"idempotency-key": "once"}
    first = await client.post("/v1/tasks", json=sent, headers=header)
    again = await client.post("/v1/tasks", json=sent, headers=header)
    in_body = await client.post("/v1/tasks", json={**sent, "key": "once"})
    other = await client.post("/v1/tasks", json={**sent, "payload": {"a": 2}}, headers=header)
    assert (first.status_code, again.status_code, in_body.status_code) == (201, 200, 200)
    assert first.json()["task_id"] == again.json()["task_id"] == in_body.json()["task_id"]
    assert again.json()["is_new"] is False
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_conflict")


async def test_fifty_at_once_under_one_key_make_one_task(client: httpx.AsyncClient) -> None:
    sent = {"task_type": "t", "key": "race"}
    answers = await asyncio.gather(*(client.post("/v1/tasks", json=sent) for _ in range(50)))
    assert len({answer.json()["task_id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]


async def test_the_header_and_the_field_must_agree(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/tasks", json={"task_type": "t", "key": "a"}, headers={"idempotency-key": "b"}
    )
    assert (answer.status_code, answer.json()["field"]) == (409, "key")


async def test_a_batch_answers_for_each_in_order(client: httpx.AsyncClient) -> None:
    tasks = [
        {"task_type": "a", "key": "x"},
        {"task_type": "", "payload": {}},
        {"task_type": "a", "key": "x"},
        {"task_type": "a", "key": "x", "priority": 9},
        {"task_type": "b", "unknown": 1},
        "no task",
    ]
    answer = await client.post("/v1/tasks/batch", json={"tasks": tasks})
    assert answer.status_code == 207
    body = answer.json()
    assert [item["status"] for item in body["results"]] == [201, 422, 200, 409, 422, 422]
    assert body["results"][1]["field"] == "tasks[1].task_type"
    assert body["results"][4]["field"] == "tasks[4].unknown"
    assert (body["stored"], body["failed"]) == (2, 4)


async def test_a_batch_may_be_a_task_a_line(client: httpx.AsyncClient) -> None:
    lines = [json.dumps({"task_type": "t", "payload": {"n": n}}) for n in range(3)]
    lines.insert(1, '{"task_type": "t", "task_type": "u"}')
    answer = await client.post(
        "/v1/tasks/batch",
        content="\n".join(lines) + "\n",
        headers={"content-type": "application/x-ndjson"},
    )
    assert [item["status"] for item in answer.json()["results"]] == [201, 400, 201, 201]


async def test_ten_thousand_go_and_one_more_does_not(client: httpx.AsyncClient) -> None:
    tasks = [{"task_type": "t"}] * 10_000
    answer = await client.post("/v1/tasks/batch", json={"tasks": tasks})
    assert answer.json()["stored"] == 10_000
    more = await client.post("/v1/tasks/batch", json={"tasks": [*tasks, tasks[0]]})
    assert (more.status_code, more.json()["code"]) == (413, "payload_too_large")


async def test_a_list_is_paged_and_each_task_is_in_it_once(client: httpx.AsyncClient) -> None:
    batch = [{"task_type": "a" if n % 2 else "b"} for n in range(25)]
    await client.post("/v1/tasks/batch", json={"tasks": batch})
    seen: list[str] = []
    params: dict[str, str | int] = {"limit": 7}
    while True:
        page = (await client.get("/v1/tasks", params=params)).json()
        seen.extend(task["task_id"] for task in page["tasks"])
        if page["cursor"] is None:
            break
        params["cursor"] = page["cursor"]
    assert len(seen) == len(set(seen)) == 25
    assert seen == sorted(seen, reverse=True)
    only = (await client.get("/v1/tasks", params={"task_type": "a", "status": "pending"})).json()
    assert {task["task_type"] for task in only["tasks"]} == {"a"}


async def test_cancel_move_and_run_now(client: httpx.AsyncClient) -> None:
    task_id = (await client.post("/v1/tasks", json={"task_type": "t", "delay": 3600})).json()[
        "task_id"
    ]
    moved = await client.post(
        f"/v1/tasks/{task_id}/reschedule", json={"scheduled_at": "2100-01-01T00:00:00Z"}
    )
    assert moved.json()["status"] == "pending"
    task = (await client.get(f"/v1/tasks/{task_id}")).json()
    assert (task["scheduled_at"], task["ready"]) == ("2100-01-01T00:00:00Z", False)
    assert (await client.post(f"/v1/tasks/{task_id}/run-now")).status_code == 200
    assert (await client.get(f"/v1/tasks/{task_id}")).json()["ready"] is True
    cancelled = await client.post(f"/v1/tasks/{task_id}/cancel", json={"reason": "not needed"})
    assert cancelled.json() == {"task_id": task_id, "status": "cancelled"}
    again = await client.post(f"/v1/tasks/{task_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "task_already_finished")
    late = await client.post(f"/v1/tasks/{task_id}/run-now")
    assert (late.status_code, late.json()["code"]) == (409, "task_not_waiting")


async def test_what_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    missing = uuid4()
    for method, path in (
        ("GET", f"/v1/tasks/{missing}"),
        ("GET", f"/v1/tasks/{missing}/events"),
        ("POST", f"/v1/tasks/{missing}/cancel"),
        ("POST", f"/v1/tasks/{missing}/run-now"),
        ("GET", f"/v1/dead-letters/{missing}"),
        ("POST", "/v1/queues/never/resume"),
        ("GET", "/v1/nothing"),
        ("GET", "/v2/tasks"),
        ("GET", "/v1/tasks/"),
    ):
        answer = await client.request(method, path)
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"
    wrong = await client.put("/v1/tasks")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


async def test_dead_letters_are_replayed_and_discarded(client: httpx.AsyncClient) -> None:
    batch = {"tasks": [{"task_type": "t", "max_retries": 0}] * 3}
    await client.post("/v1/tasks/batch", json=batch)
    worker = {"worker_id": "w"}
    claimed = await client.post("/v1/leases", json={**worker, "task_types": ["t"], "limit": 3})
    for lease in claimed.json()["leases"]:
        named = {**worker, "task_id": lease["task_id"], "fencing_token": lease["fencing_token"]}
        ended = await client.post("/v1/leases/fail", json={**named, "error": "ValueError: no"})
        assert ended.json()["status"] == "failed"
    dead = (await client.get("/v1/dead-letters")).json()["tasks"]
    assert len(dead) == 3
    assert dead[0]["last_error"] == "ValueError: no"
    one = dead[0]["task_id"]
    nothing = await client.post("/v1/dead-letters/replay", json={})
    assert (nothing.status_code, nothing.json()["field"]) == (422, "ids")
    replayed = await client.post(
        "/v1/dead-letters/replay", json={"ids": [one], "payload": {"fixed": True}}
    )
    assert replayed.json() == {"task_ids": [one], "count": 1}
    again = (await client.get(f"/v1/tasks/{one}")).json()
    assert (again["status"], again["payload"]) == ("pending", {"fixed": True})
    rest = await client.post("/v1/dead-letters/discard", json={"all": True, "reason": "old"})
    assert rest.json()["count"] == 2
    assert (await client.get("/v1/dead-letters")).json()["tasks"] == []


async def test_queues_are_listed_paused_and_resumed(client: httpx.AsyncClient) -> None:
    await client.post("/v1/tasks", json={"task_type": "t", "queue": "a/b"})
    assert (await client.post("/v1/queues/a%2Fb/pause")).json() == {
        "queue": "a/b",
        "paused": True,
    }
    (queue,) = (await client.get("/v1/queues")).json()["queues"]
    assert (queue["queue"], queue["paused"], queue["ready"]) == ("a/b", True, 1)
    body = {"worker_id": "w", "task_types": ["t"]}
    assert (await client.post("/v1/leases", json=body)).json()["leases"] == []
    assert (await client.post("/v1/queues/a%2Fb/resume")).json()["paused"] is False
    assert len((await client.post("/v1/leases", json=body)).json()["leases"]) == 1


async def test_a_task_of_an_app_shows_its_result(client: httpx.AsyncClient, api: "object") -> None:
    del api
    made = (await client.post("/v1/tasks", json={"task_type": "t"})).json()
    lease = (await client.post("/v1/leases", json={"worker_id": "w", "task_types": ["t"]})).json()[
        "leases"
    ][0]
    done = {"worker_id": "w", "task_id": lease["task_id"], "fencing_token": 1, "result": {"n": 1}}
    assert (await client.post("/v1/leases/complete", json=done)).status_code == 200
    task = (await client.get(f"/v1/tasks/{made['task_id']}")).json()
    assert (task["status"], task["result"]) == ("completed", {"n": 1})


def test_the_domain_task_has_no_field_for_a_namespace() -> None:
    """It is in the name of the queue, so that nothing can forget to look at it."""
    assert "namespace" not in NewTask.__struct_fields__


async def test_an_answer_may_be_allowed_to_be_old(client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/tasks", json={"task_type": "t"})).json()
    path = f"/v1/tasks/{made['task_id']}"
    for text in ("0", "5", "2.5"):
        answer = await client.get(path, headers={"max-staleness": text})
        assert answer.status_code == 200
    for text in ("-1", "soon", "nan", "1e9"):
        answer = await client.get(path, headers={"max-staleness": text})
        assert answer.status_code == 422
        assert answer.json()["field"] == "Max-Staleness"
