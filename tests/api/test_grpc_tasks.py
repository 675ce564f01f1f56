"""TaskService, DeadLetterService and ScheduleService: what REST does, said in another way."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from api.rpc import Client, Rpc, rpc_shared, rpc_started
from fixtures.postgres import PostgresServer
from mainspring.api._generated import schedules_pb2, tasks_pb2
from mainspring.ports.access import Namespace

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(postgres_server: PostgresServer) -> AsyncIterator[Rpc]:
    async with rpc_shared(postgres_server) as running:
        yield running


@pytest.fixture
def rpc(server: Rpc) -> Rpc:
    return server.apart()


@pytest_asyncio.fixture(loop_scope="module")
async def client(rpc: Rpc) -> AsyncIterator[Client]:
    async with rpc.client() as opened:
        yield opened


async def test_a_task_from_submission_to_cancellation(client: Client) -> None:
    given = {"task_type": "t", "payload": '{"n": 9007199254740993}', "delay": 600.0, "key": "k"}
    made = await client.call("TaskService.Submit", **given)
    assert (made.is_new, made.status, made.queue) == (
        True,
        tasks_pb2.TASK_STATUS_PENDING,
        "default",
    )
    again = await client.call("TaskService.Submit", **given)
    assert (again.task_id, again.is_new) == (made.task_id, False)
    task = await client.call("TaskService.Get", task_id=made.task_id)
    assert task.payload == '{"n":9007199254740993}'
    assert task.level == tasks_pb2.LEVEL_NORMAL
    assert task.created_at.endswith("Z")
    assert not task.HasField("started_at")
    moved = await client.call(
        "TaskService.Reschedule", task_id=made.task_id, scheduled_at="2100-01-01T00:00:00+02:00"
    )
    assert moved.status == tasks_pb2.TASK_STATUS_PENDING
    task = await client.call("TaskService.Get", task_id=made.task_id)
    assert task.scheduled_at == "2099-12-31T22:00:00Z"
    await client.call("TaskService.RunNow", task_id=made.task_id)
    ended = await client.call("TaskService.Cancel", task_id=made.task_id, reason="no need")
    assert ended.status == tasks_pb2.CANCEL_STATE_CANCELLED
    task = await client.call("TaskService.Get", task_id=made.task_id, max_staleness=2.5)
    assert (task.status, task.reason) == (tasks_pb2.TASK_STATUS_CANCELLED, "no need")
    late = await client.refused("TaskService.RunNow", task_id=made.task_id)
    assert (late.status, late.code) == ("FAILED_PRECONDITION", "task_not_waiting")


async def test_a_batch_answers_for_each_task(client: Client) -> None:
    tasks = [
        tasks_pb2.NewTask(task_type="t", priority=1),
        tasks_pb2.NewTask(task_type="t", payload="{"),
        tasks_pb2.NewTask(task_type="t", priority=11),
        tasks_pb2.NewTask(task_type="t", payload='{"a":1}'),
    ]
    answer = await client.call("TaskService.SubmitBatch", tasks=tasks)
    assert (answer.stored, answer.failed) == (2, 2)
    assert [item.code for item in answer.results] == ["", "malformed_request", "invalid_value", ""]
    assert answer.results[1].field == "tasks[1].payload"
    assert answer.results[2].field == "tasks[2].priority"
    listed = await client.call("TaskService.List", limit=1)
    assert [task.task_id for task in listed.tasks] == [answer.results[3].task_id]
    rest = await client.call("TaskService.List", cursor=listed.cursor)
    assert [task.task_id for task in rest.tasks] == [answer.results[0].task_id]
    assert not rest.HasField("cursor")
    none = await client.call("TaskService.List", status=tasks_pb2.TASK_STATUS_FAILED)
    assert not none.tasks


async def test_group_and_unique_keys(client: Client) -> None:
    given = {"task_type": "t", "group_key": "7", "unique_key": "u", "delay": 600.0}
    made = await client.call("TaskService.Submit", **given)
    assert (made.is_new, made.group_key, made.unique_key) == (True, "7", "u")
    again = await client.call("TaskService.Submit", **given)
    assert (again.task_id, again.is_new) == (made.task_id, False)
    task = await client.call("TaskService.Get", task_id=made.task_id)
    assert (task.group_key, task.unique_key, task.held) == ("7", "u", False)
    plain = await client.call("TaskService.Submit", task_type="t")
    assert not plain.HasField("group_key")
    listed = await client.call("TaskService.List", group_key="7")
    assert [task.task_id for task in listed.tasks] == [made.task_id]
    both = await client.refused("TaskService.Submit", task_type="t", key="k", unique_key="u")
    assert (both.status, both.field) == ("INVALID_ARGUMENT", "unique_key")


async def test_a_watch_tells_everything_and_goes_on_where_it_was_lost(
    rpc: Rpc, client: Client
) -> None:
    task_id = (await client.call("TaskService.Submit", task_type="t")).task_id
    stream = client.stream("TaskService.Watch", task_id=task_id)
    async with asyncio.timeout(20):
        first = await stream.read()
        assert (first.name, first.task_id) == ("pending", task_id)
        stream.cancel()
        claimed = await client.call("WorkerService.Claim", worker_id="w", task_types=["t"])
        token = claimed.leases[0].fencing_token
        await client.call(
            "WorkerService.Complete",
            worker_id="w",
            task_id=task_id,
            fencing_token=token,
            result='{"big": 12345678901234567890}',
        )
        told = [
            event
            async for event in client.stream("TaskService.Watch", task_id=task_id, after=first.id)
        ]
    assert [event.name for event in told] == ["running", "completed"]
    assert json.loads(told[1].data)["result"] == {"big": 12345678901234567890}
    missing = client.stream("TaskService.Watch", task_id=str(uuid4()))
    with pytest.raises(Exception, match="there is no task"):
        await missing.read()


async def test_dead_letters(rpc: Rpc, client: Client) -> None:
    ids = []
    for payload in ('{"n":1}', '{"n":2}'):
        made = await client.call(
            "TaskService.Submit", task_type="t", payload=payload, max_retries=0
        )
        (lease,) = (
            await client.call("WorkerService.Claim", worker_id="w", task_types=["t"])
        ).leases
        failed = await client.call(
            "WorkerService.Fail",
            worker_id="w",
            task_id=lease.task_id,
            fencing_token=lease.fencing_token,
            error="ValueError: no",
        )
        assert failed.status == tasks_pb2.TASK_STATUS_FAILED
        ids.append(made.task_id)
    listed = await client.call("DeadLetterService.List", task_type="t")
    assert {task.task_id for task in listed.tasks} == set(ids)
    letter = await client.call("DeadLetterService.Get", task_id=ids[0])
    assert (letter.attempts[0].error, letter.attempts[0].kind) == ("ValueError: no", 1)
    nothing = await client.refused("DeadLetterService.Replay")
    assert (nothing.status, nothing.field) == ("INVALID_ARGUMENT", "ids")
    replayed = await client.call("DeadLetterService.Replay", ids=[ids[0]], payload='{"n":3}')
    assert (list(replayed.task_ids), replayed.count) == ([ids[0]], 1)
    again = await client.call("TaskService.Get", task_id=ids[0])
    assert (again.payload, again.status) == ('{"n":3}', tasks_pb2.TASK_STATUS_PENDING)
    empty = await client.refused("DeadLetterService.Discard", all=True)
    assert (empty.status, empty.field) == ("INVALID_ARGUMENT", "reason")
    gone = await client.call("DeadLetterService.Discard", all=True, reason="known")
    assert list(gone.task_ids) == [ids[1]]
    twice = await client.refused("DeadLetterService.Replay", ids=[ids[1]])
    assert (twice.status, twice.code) == ("FAILED_PRECONDITION", "not_a_dead_letter")


async def test_schedules(client: Client) -> None:
    seen = await client.call(
        "ScheduleService.Preview",
        timetable=schedules_pb2.Timetable(cron=["0 9 * * *"], timezone="Europe/Berlin"),
        after="2027-01-01T00:00:00Z",
        count=2,
    )
    assert [time.utc for time in seen.next] == ["2027-01-01T08:00:00Z", "2027-01-02T08:00:00Z"]
    assert seen.next[0].local == "2027-01-01T09:00:00+01:00"
    given = {
        "name": "daily",
        "task_type": "t",
        "timetable": schedules_pb2.Timetable(
            cron=["0 9 * * *"],
            fold=schedules_pb2.FOLD_RULE_ONCE,
            exclusions=[schedules_pb2.Exclusion(dates=["2027-12-25"], weekend=[5, 6])],
        ),
        "policy": schedules_pb2.SchedulePolicy(overlap=schedules_pb2.OVERLAP_RULE_BUFFER_ONE),
        "run": schedules_pb2.RunOptions(
            payload='{"a":1}',
            priority=2,
            group_key="acme",
            unique_key="daily",
            webhook=tasks_pb2.Webhook(
                url="https://example.com/hook", events=[tasks_pb2.WEBHOOK_EVENT_FAILED]
            ),
        ),
    }
    made = await client.call("ScheduleService.Create", **given)
    assert (made.kind, made.priority, made.payload) == ("cron", 2, '{"a":1}')
    assert (made.group_key, made.unique_key, made.webhook.url) == (
        "acme", "daily", "https://example.com/hook"
    )  # fmt: skip
    assert list(made.webhook.events) == [tasks_pb2.WEBHOOK_EVENT_FAILED]
    spec = json.loads(made.spec)
    assert spec["fold"] == "once"
    assert spec["overlap"]["rule"] == "buffer_one"
    assert spec["exclusions"][0]["dates"] == ["2027-12-25"]
    other = {**given, "task_type": "u"}
    assert (await client.refused("ScheduleService.Create", **other)).code == "schedule_exists"
    kept = await client.call(
        "ScheduleService.Create", **other, on_conflict=schedules_pb2.ON_CONFLICT_KEEP
    )
    assert kept.task_type == "t"
    paused = await client.call("ScheduleService.Pause", name="daily", note="holidays")
    assert (paused.status, paused.note) == (schedules_pb2.SCHEDULE_STATUS_PAUSED, "holidays")
    await client.call("ScheduleService.Resume", name="daily", catch_up=False)
    changed = await client.call(
        "ScheduleService.Update", name="daily", run=schedules_pb2.RunOptions(priority=7)
    )
    assert (changed.priority, changed.payload) == (7, '{"a":1}')
    run = await client.call("ScheduleService.Trigger", name="daily")
    assert (bool(run.task_id), run.reason) == (True, "")
    allow = schedules_pb2.OVERLAP_RULE_ALLOW
    met = await client.call("ScheduleService.Trigger", name="daily", overlap=allow)
    assert (met.task_id, met.reason) == (run.task_id, "unique")
    back = await client.call(
        "ScheduleService.Backfill",
        name="daily",
        start="2026-01-01T00:00:00Z",
        end="2026-01-03T00:00:00Z",
        dry_run=True,
    )
    assert list(back.nominal) == ["2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"]
    listed = await client.call("ScheduleService.List")
    assert [one.name for one in listed.schedules] == ["daily"]
    assert (await client.call("ScheduleService.Delete", name="daily")).name == "daily"
    gone = await client.refused("ScheduleService.Get", name="daily")
    assert (gone.status, gone.code) == ("NOT_FOUND", "schedule_not_found")


async def test_quotas_and_conflicts_have_codes_of_their_own(database: str) -> None:
    async with rpc_started(database) as rpc, rpc.client(namespace="small") as client:
        await rpc.api.store.set_namespace(Namespace(name="small", pending_max=1))
        await client.call("TaskService.Submit", task_type="t", key="k")
        other = await client.refused("TaskService.Submit", task_type="u", key="k")
        full = await client.refused("TaskService.Submit", task_type="t")
    assert (full.status, full.code) == ("RESOURCE_EXHAUSTED", "quota_exceeded")
    assert int(full.retry_after or 0) >= 1
    assert other.code in {"idempotency_key_conflict", "quota_exceeded"}
