"""Schedules over the API, and that each namespace has its own."""

import asyncio

import httpx
import pytest

from api.conftest import Api
from mainspring.ports.access import Namespace

DAILY = {"name": "report", "task_type": "t", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}


async def test_a_schedule_is_made_changed_and_forgotten(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/schedules", json={**DAILY, "payload": {"a": 1}, "queue": "q"})
    assert made.status_code == 201, made.text
    assert made.json()["cron_expression"] == "0 9 * * MON-FRI"
    assert (await client.post("/v1/schedules", json={**DAILY, "queue": "q"})).status_code == 409
    kept = await client.post(
        "/v1/schedules", json={**DAILY, "every": None, "cron": "5 9 * * *", "on_conflict": "keep"}
    )
    assert (kept.status_code, kept.json()["cron_expression"]) == (200, "0 9 * * MON-FRI")
    changed = await client.patch("/v1/schedules/report", json={"cron": "30 8 * * *", "priority": 2})
    assert (changed.json()["cron_expression"], changed.json()["priority"]) == ("30 8 * * *", 2)
    assert changed.json()["payload"] == {"a": 1}
    paused = await client.post("/v1/schedules/report/pause", json={"note": "holidays"})
    assert (paused.json()["status"], paused.json()["note"]) == ("paused", "holidays")
    assert (await client.post("/v1/schedules/report/resume")).json()["status"] == "active"
    listed = (await client.get("/v1/schedules")).json()["schedules"]
    assert [schedule["name"] for schedule in listed] == ["report"]
    assert (await client.delete("/v1/schedules/report")).json() == {"name": "report"}
    assert (await client.get("/v1/schedules/report")).status_code == 404


async def test_runs_by_hand_and_of_the_past(client: httpx.AsyncClient) -> None:
    await client.post("/v1/schedules", json={**DAILY, "cron": "0 * * * *", "timezone": "UTC"})
    run = (await client.post("/v1/schedules/report/trigger")).json()
    task = (await client.get(f"/v1/tasks/{run['task_id']}")).json()
    assert (task["schedule"], task["schedule_type"]) == ("report", "recurring")
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T05:00:00Z"}
    dry = (
        await client.post("/v1/schedules/report/backfill", json={**span, "dry_run": True})
    ).json()
    assert (len(dry["nominal"]), dry["started"]) == (5, [])
    done = (await client.post("/v1/schedules/report/backfill", json=span)).json()
    assert len(done["started"]) == 5
    made = (await client.get("/v1/tasks", params={"schedule": "report"})).json()["tasks"]
    assert len(made) == 6
    ticks = (await client.get("/v1/schedules/report/history")).json()["ticks"]
    assert len(ticks) == 6
    refused = await client.post("/v1/schedules/report/trigger", json={"overlap": "skip"})
    assert (refused.status_code, refused.json()["code"]) == (409, "run_skipped")


async def test_a_timetable_can_be_looked_at_first(client: httpx.AsyncClient) -> None:
    asked = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3}
    shown = await client.post("/v1/schedules/preview", json=asked)
    assert shown.status_code == 200, shown.text
    assert len(shown.json()["next"]) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "/5 * * * *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "77 * * * *"},
        {"cron": "*/0 * * * *"},
        {"cron": "5-1 * * * *"},
        {"cron": "@every 1ns"},
        {"cron": "\u0663 * * * *"},
        {"cron": ",".join(["1"] * 50_000) + " * * * *"},
        {"cron": ""},
        {"cron": []},
        {"cron": "0 9 * * *", "every": 60},
        {"every": 0},
        {"every": 1e308},
        {"at": "infinity"},
        {"cron": "0 9 * * *", "timezone": "Mars/Phobos"},
        {"cron": "0 9 * * *", "timezone": ""},
        {"cron": "0 9 * * *", "timezone": "../../etc/passwd"},
        {"cron": "0 9 * * *", "timezone": "UTC\x00"},
        {"cron": "0 9 * * *", "timezone": "x" * 100_000},
        {"cron": "0 9 * * *", "misfire": "perhaps"},
        {"cron": "0 9 * * *", "overlap": "perhaps"},
        {"cron": "0 9 * * *", "max_runs": 2**63},
        {"cron": "0 9 * * *", "start_at": "2027-01-01T00:00:00"},
        {"cron": "0 9 * * *", "status": "paused"},
        {"cron": "0 9 * * *", "name": "acme~x"},
        {"cron": "0 9 * * *", "queue": "acme~x"},
        {},
    ],
)
async def test_what_is_wrong_about_a_schedule(client: httpx.AsyncClient, wrong: object) -> None:
    assert isinstance(wrong, dict)
    answer = await client.post("/v1/schedules", json={"name": "s", "task_type": "t", **wrong})
    assert answer.status_code in {400, 422}, answer.text
    assert (await client.get("/v1/schedules")).json()["schedules"] == []


async def test_one_name_in_parallel_makes_one_schedule(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.post("/v1/schedules", json=DAILY) for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len((await client.get("/v1/schedules")).json()["schedules"]) == 1


async def test_each_namespace_has_its_own(api: Api) -> None:
    await api.store.set_namespace(Namespace(name="acme", schedules_max=1))
    async with await api.client(namespace="acme") as acme, await api.client() as default:
        assert (await acme.post("/v1/schedules", json=DAILY)).status_code == 201
        assert (await default.get("/v1/schedules/report")).status_code == 404
        assert (await default.get("/v1/schedules")).json()["schedules"] == []
        for method, path in (
            ("DELETE", "/v1/schedules/report"),
            ("POST", "/v1/schedules/report/pause"),
            ("POST", "/v1/schedules/report/trigger"),
        ):
            assert (await default.request(method, path)).status_code == 404
        other = {**DAILY, "cron": "1 1 * * *"}
        assert (await default.post("/v1/schedules", json=other)).status_code == 201
        run = (await acme.post("/v1/schedules/report/trigger")).json()
        task = (await acme.get(f"/v1/tasks/{run['task_id']}")).json()
        assert (task["schedule"], task["queue"]) == ("report", "default")
        assert (await default.get(f"/v1/tasks/{run['task_id']}")).status_code == 404
        more = await acme.post("/v1/schedules", json={**DAILY, "name": "second"})
        assert (more.status_code, more.json()["code"]) == (429, "quota_exceeded")


RUN = {"group_key": "acme", "unique_key": "nightly", "webhook": "https://example.com/hook"}


async def test_runs_have_a_group_a_unique_key_and_a_webhook(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/schedules", json={**DAILY, **RUN})
    assert made.status_code == 201, made.text
    told = {"url": RUN["webhook"], "events": ["completed", "failed", "cancelled", "discarded"]}
    shown = {**RUN, "webhook": {**told, "sign": None}}
    assert made.json().items() >= shown.items()
    assert (await client.post("/v1/schedules", json={**DAILY, **RUN})).status_code == 200
    run = (await client.post("/v1/schedules/report/trigger", json={"overlap": "allow"})).json()
    assert (run["outcome"], run["reason"]) == ("task", None)
    task = (await client.get(f"/v1/tasks/{run['task_id']}")).json()
    assert (task["group_key"], task["unique_key"]) == ("acme", "nightly")
    again = (await client.post("/v1/schedules/report/trigger", json={"overlap": "allow"})).json()
    assert (again["outcome"], again["reason"]) == ("skipped", "unique")
    assert again["task_id"] == run["task_id"]
    (newest, _) = (await client.get("/v1/schedules/report/history")).json()["ticks"]
    assert newest == again
    assert (await client.get("/v1/schedules/report")).json()["skipped"] == {"unique": 1}
    await client.post(f"/v1/tasks/{run['task_id']}/cancel")
    (delivery,) = (
        await client.get("/v1/tasks", params={"task_type": "mainspring.webhook"})
    ).json()["tasks"]
    assert delivery["queue"] == "webhooks"
    changed = await client.patch(
        "/v1/schedules/report", json={"clear": ["unique_key", "webhook"], "group_key": "other"}
    )
    assert [changed.json()[name] for name in RUN] == ["other", None, None]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"unique_key": ""}, "unique_key"),
        ({"group_key": "a\nb"}, "group_key"),
        ({"group_key": "x" * 256}, "group_key"),
        ({"webhook": "file:///etc/passwd"}, "webhook"),
        ({"webhook": "http://127.0.0.1/"}, "webhook"),
        ({"webhook": {"url": RUN["webhook"], "events": ["started"]}}, "webhook.events"),
        ({"unique_key": "a", "overlap": "cancel_previous"}, "overlap"),
    ],
)
async def test_what_is_wrong_about_its_runs(
    client: httpx.AsyncClient, wrong: dict[str, object], field: str
) -> None:
    answer = await client.post("/v1/schedules", json={**DAILY, **wrong})
    assert answer.status_code == 422, answer.text
    assert str(answer.json()["field"]).startswith(field)


async def test_unique_keys_and_deliveries_are_of_a_namespace(api: Api) -> None:
    await api.store.set_namespace(Namespace(name="acme"))
    async with await api.client(namespace="acme") as acme, await api.client() as default:
        for client in (acme, default):
            made = await client.post("/v1/schedules", json={**DAILY, **RUN})
            assert made.json()["unique_key"] == "nightly"
            run = (await client.post("/v1/schedules/report/trigger")).json()
            assert run["outcome"] == "task"
            task = (await client.get(f"/v1/tasks/{run['task_id']}")).json()
            assert task["unique_key"] == "nightly"
            await client.post(f"/v1/tasks/{run['task_id']}/cancel")
            found = await client.get("/v1/tasks", params={"task_type": "mainspring.webhook"})
            assert [one["queue"] for one in found.json()["tasks"]] == ["webhooks"]
