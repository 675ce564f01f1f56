"""The Python client: the same verbs for coroutines and for code that blocks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from api.conftest import Api
from mainspring import Client, Mainspring
from mainspring.client import SyncClient
from mainspring.client.schedule_installation import ApiSchedules
from mainspring.core.schedules import Change
from mainspring.domain.errors import (
    Forbidden,
    InvalidValue,
    KeyConflict,
    NotADeadLetter,
    NotFound,
    QueueNotFound,
    ScheduleExists,
    ScheduleNotFound,
    TaskAlreadyFinished,
    TaskNotWaiting,
    Unauthenticated,
    WaitTimedOut,
)
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.task import Completed, Failed, Failure, FailureKind, Settlement
from mainspring.ports.access import Scope
from mainspring.ports.store import ClaimRequest

NOBODY = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
async def api_client(api: Api) -> AsyncIterator[Client]:
    async with Client(api.url, await api.key()) as opened:
        yield opened


async def finish(api: Api, *, fails: bool = False) -> None:
    request = ClaimRequest(worker_id="w", limit=10, lease_seconds=60, task_types=("t",))
    failed = Failed(Failure(kind=FailureKind.ERROR, message="no"))
    for lease in (await api.store.claim(request)).leases:
        ending = failed if fails else Completed('{"n": 1}')
        await api.store.settle([Settlement(lease.id, lease.fencing_token, ending)])


class TestTasks:
    async def test_submit_wait_and_look(self, api: Api, api_client: Client) -> None:
        task = await api_client.submit("t", {"a": 1}, priority=2, timeout=timedelta(seconds=9))
        with pytest.raises(WaitTimedOut):
            await api_client.wait(task["task_id"], timeout=0.3)
        waiting = asyncio.create_task(api_client.wait(task["task_id"], timeout=20))
        told = asyncio.create_task(names(api_client, task["task_id"]))
        await finish(api)
        ended = await waiting
        assert (ended["status"], ended["result"]) == ("completed", {"n": 1})
        assert (ended["priority"], ended["timeout"]) == (2, 9)
        assert await told == ["pending", "running", "completed"]
        with pytest.raises(TaskAlreadyFinished):
            await api_client.cancel(task["task_id"])
        with pytest.raises(TaskNotWaiting):
            await api_client.run_now(task["task_id"])

    async def test_events_go_on_where_they_were(self, api: Api, api_client: Client) -> None:
        task = await api_client.submit("t")
        await finish(api)
        events = [event async for event in api_client.events(task["task_id"])]
        assert [event.name for event in events] == ["pending", "running", "completed"]
        rest = [event async for event in api_client.events(task["task_id"], after=events[0].id)]
        assert rest == events[1:]
        assert await names(api_client, task["task_id"], after=events[2].id) == []
        assert events[2].data["result"] == {"n": 1}

    async def test_the_words_of_an_app_are_understood(self, api_client: Client) -> None:
        at = datetime(2100, 1, 1, tzinfo=UTC)
        backoff = Backoff(BackoffKind.FIXED, 7.0)
        task = await api_client.submit("t", at=at, backoff=backoff, max_retries=1, key="mine")
        found = await api_client.get(task["task_id"])
        assert found["scheduled_at"] == "2100-01-01T00:00:00Z"
        assert (found["retry_backoff"], found["max_retries"], found["key"]) == ("fixed", 1, "mine")
        with pytest.raises(InvalidValue) as caught:
            await api_client.submit("t", {"a": [b"x"]})
        assert caught.value.field == "payload.a[0]"

    async def test_lists_are_read_page_by_page(self, api_client: Client) -> None:
        many = [{"task_type": "t", "delay": 60}] * 450
        results = await api_client.submit_many(many)
        assert [result["status"] for result in results] == [201] * 450
        found = [task["task_id"] async for task in api_client.tasks(status="pending")]
        assert sorted(found) == sorted(result["task_id"] for result in results)
        since = datetime.now(UTC) + timedelta(hours=1)
        assert [task async for task in api_client.tasks(since=since, ready=False)] == []

    async def test_moving(self, api_client: Client) -> None:
        first, second = await api_client.submit_many([{"task_type": "t", "delay": 60}] * 2)
        assert await api_client.reschedule(first["task_id"], None) == "pending"
        assert (await api_client.get(first["task_id"]))["ready"] is True
        await api_client.reschedule(first["task_id"], "2100-01-01T00:00:00Z")
        assert (await api_client.get(first["task_id"]))["ready"] is False
        assert await api_client.cancel(second["task_id"], "not needed") == "cancelled"

    async def test_a_batch_answers_for_each_and_is_split_by_size(self, api_client: Client) -> None:
        await api_client.submit("t", {"a": 1}, key="k")
        big = {"task_type": "t", "payload": {"text": "x" * 200_000}}
        bad: list[Any] = [{"task_type": "t", "key": "k"}, {"task_type": "t", "priority": 11}]
        results = await api_client.submit_many([*bad, *[big] * 90])
        assert [result["status"] for result in results] == [409, 422, *[201] * 90]
        assert results[1]["field"] == "tasks[1].priority"


async def names(client: Client, task_id: str, **options: Any) -> list[str]:
    return [event.name async for event in client.events(task_id, **options)]


async def test_errors_are_those_of_an_app(api: Api, api_client: Client) -> None:
    with pytest.raises(NotFound):
        await api_client.get(NOBODY)
    with pytest.raises(NotFound):
        await api_client.wait(NOBODY)
    with pytest.raises(InvalidValue) as caught:
        await api_client.submit("t", priority=11)
    assert caught.value.field == "priority"
    await api_client.submit("t", {"a": 1}, key="k")
    with pytest.raises(KeyConflict):
        await api_client.submit("t", {"a": 2}, key="k")
    async with Client(api.url, "ms_wrong") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.get(NOBODY)
    async with Client(api.url, await api.key(Scope.SUBMIT)) as submitter:
        assert (await submitter.submit("t"))["is_new"] is True
        with pytest.raises(Forbidden):
            await submitter.queues()


async def test_operators_have_their_verbs(api: Api, api_client: Client) -> None:
    first, second, third = await api_client.submit_many([{"task_type": "t", "max_retries": 0}] * 3)
    await finish(api, fails=True)
    failed = [task["task_id"] async for task in api_client.dead_letters(task_type="t")]
    assert len(failed) == 3
    assert (await api_client.dead_letter(first["task_id"]))["last_error"] == "no"
    first_id = UUID(first["task_id"])
    assert await api_client.replay(first["task_id"], payload={"b": 1}) == [first_id]
    assert (await api_client.get(first_id))["payload"] == {"b": 1}
    with pytest.raises(NotADeadLetter):
        await api_client.replay(first_id)
    with pytest.raises(InvalidValue):
        await api_client.replay()
    assert await api_client.discard(second["task_id"], reason="old") == [UUID(second["task_id"])]
    assert await api_client.replay(everything=True) == [UUID(third["task_id"])]
    await api_client.pause_queue("default")
    assert [one["paused"] for one in await api_client.queues()] == [True]
    await api_client.resume_queue("default")
    with pytest.raises(QueueNotFound):
        await api_client.resume_queue("other")
    limits = api_client.limits
    await limits.set_queue("default", concurrency=5)
    assert (await limits.set_groups("default", rate="30/m"))["group"]["rate"] == 0.5
    await limits.set_group("default", "a b", rate=2, burst=9)
    await limits.set_group("default", "gone", concurrency=1)
    await limits.drop_group("default", "gone")
    assert await limits.get("default") == {
        "queue": {"concurrency": 5, "rate": None, "burst": None},
        "group": {"concurrency": None, "rate": 0.5, "burst": None},
        "groups": [{"group_key": "a b", "limit": {"concurrency": None, "rate": 2.0, "burst": 9}}],
    }
    with pytest.raises(InvalidValue) as caught:
        await limits.set_queue("default", rate="0/s")
    assert caught.value.field == "queue.rate"
    assert await api_client.workers() == []
    assert (await api_client.stats())["queues"] == 1


async def test_schedules_have_their_verbs(api_client: Client) -> None:
    use = api_client.schedules
    made = await use.create("daily", "t", {"a": 1}, cron="0 9 * * *", timezone="Europe/Berlin")
    assert (made["payload"], made["timezone"]) == ({"a": 1}, "Europe/Berlin")
    assert await use.create("daily", "t", {"a": 1}, cron="0 9 * * *", timezone="Europe/Berlin")
    with pytest.raises(ScheduleExists):
        await use.create("daily", "t", cron="0 8 * * *")
    changed = await use.update("daily", {"a": 2}, misfire_window=timedelta(hours=1))
    assert changed["payload"] == {"a": 2}
    assert (await use.pause("daily", "holiday"))["note"] == "holiday"
    assert (await use.resume("daily", catch_up=True))["status"] == "active"
    run = await use.trigger("daily")
    assert (await api_client.get(run["task_id"]))["schedule"] == "daily"
    assert [tick["task_id"] for tick in await use.history("daily")] == [run["task_id"]]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    listed = await use.backfill("daily", start, start + timedelta(days=2), dry_run=True)
    assert len(listed["nominal"]) == 2
    assert [one["name"] for one in await use.list()] == ["daily"]
    seen = await use.preview(cron="0 9 * * *", after=start, count=1)
    assert seen["next"][0]["utc"] == "2026-01-01T09:00:00Z"
    await use.delete("daily")
    with pytest.raises(ScheduleNotFound):
        await use.get("daily")


async def test_schedules_through_an_installation_have_the_options_of_their_task_type(
    api_client: Client,
) -> None:
    app = Mainspring()

    @app.task("bill", queue="bills", labels="gpu", group_key=lambda customer: f"c{customer}")
    async def bill(customer: int) -> None:
        """Costs nothing."""

    use = ApiSchedules(api_client)
    change = Change(
        task_type="bill",
        payload={"customer": 7},
        options={"every": 60, "webhook": "https://example.com/hook"},
        definition=bill.definition,
    )
    made = await use.create("bills", change)
    assert (made.queue, made.labels, made.group_key) == ("bills", ("gpu",), "c7")
    assert made.webhook is not None
    changed = await use.update("bills", Change(options={"labels": "eu,gpu"}, clear=("webhook",)))
    assert (changed.labels, changed.webhook, changed.group_key) == (("eu", "gpu"), None, "c7")


async def test_code_that_blocks_has_the_same(api: Api) -> None:
    key = await api.key()

    def work() -> list[str]:
        with SyncClient(api.url, key) as client:
            task = client.submit("t", {"a": 1}, delay=3600)
            with pytest.raises(WaitTimedOut):
                client.wait(task["task_id"], timeout=0.2)
            client.run_now(task["task_id"])
            assert client.get(task["task_id"], max_staleness=5)["status"] == "pending"
            assert [one["task_id"] for one in client.tasks()] == [task["task_id"]]
            client.schedules.create("s", "t", every=60)
            assert [one["name"] for one in client.schedules.list()] == ["s"]
            assert client.cancel(task["task_id"]) == "cancelled"
            assert client.wait(task["task_id"])["status"] == "cancelled"
            assert list(client.dead_letters()) == []
            return [event.name for event in client.events(task["task_id"])]

    assert await asyncio.to_thread(work) == ["pending", "cancelled"]


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize("pick", [lambda c: c, lambda c: c.schedules], ids=["tasks", "schedules"])
async def test_both_clients_have_the_same_names(pick: Callable[[Any], Any]) -> None:
    async with Client("http://127.0.0.1:9") as client:
        assert public(type(pick(client))) == public(type(pick(client.sync)))
