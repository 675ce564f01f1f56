"""Keys, scopes and namespaces on gRPC: every method, every role, every tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio

from api.rpc import METHODS, Client, Rpc, refusal, rpc_shared, rpc_started
from fixtures.postgres import PostgresServer
from mainspring.api._generated import queues_pb2, schedules_pb2, tasks_pb2, workers_pb2
from mainspring.api.rpc.methods import TABLE
from mainspring.ports.access import AuditFilter, Scope

CRON = schedules_pb2.Timetable(cron=["0 9 * * *"])
FIELDS: dict[str, dict[str, Any]] = {
    "TaskService.Submit": {"task_type": "t"},
    "TaskService.SubmitBatch": {"tasks": [tasks_pb2.NewTask(task_type="t")]},
    "TaskService.Reschedule": {"scheduled_at": "2100-01-01T00:00:00Z"},
    "ScheduleService.Create": {"task_type": "t", "timetable": CRON},
    "ScheduleService.Update": {"run": schedules_pb2.RunOptions(priority=1)},
    "ScheduleService.Preview": {"timetable": CRON},
    "ScheduleService.Backfill": {"start": "2027-01-01T00:00:00Z", "end": "2027-01-02T00:00:00Z"},
    "DeadLetterService.Replay": {"task_type": "t"},
    "DeadLetterService.Discard": {"task_type": "t", "reason": "r"},
    "QueueService.SetLimits": {"group": queues_pb2.Limit(rate=100)},
    "QueueService.SetGroupLimit": {"group_key": "g", "concurrency": 5},
    "QueueService.DropGroupLimit": {"group_key": "g"},
    "WorkerService.Claim": {"worker_id": "w", "task_types": ["t"]},
    "WorkerService.Heartbeat": {"worker_id": "w"},
    "WorkerService.Complete": {"worker_id": "w", "fencing_token": 1},
    "WorkerService.Fail": {"worker_id": "w", "fencing_token": 1, "error": "e"},
}
"""Good fields for each method that needs some besides an id and a name."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(postgres_server: PostgresServer) -> AsyncIterator[Rpc]:
    async with rpc_shared(postgres_server) as running:
        yield running


@pytest.fixture
def rpc(server: Rpc) -> Rpc:
    return server.apart()


async def status_of(client: Client, name: str, task_id: str) -> tuple[str, str]:
    """Call a method and return its status and sentence."""
    method = METHODS[name]
    fields = dict(FIELDS.get(name, {}))
    known = method.input_type.fields_by_name
    if "task_id" in known:
        fields["task_id"] = task_id
    if "name" in known:
        fields["name"] = "s"
    if "leases" in known:
        fields["leases"] = [workers_pb2.LeaseRef(task_id=task_id, fencing_token=1)]
    if method.client_streaming:
        call = client.work()
        hello = workers_pb2.Hello(worker_id="w", task_types=["t"])
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.write(workers_pb2.WorkerMessage(hello=hello))
            await call.done_writing()
            # The status comes after all that was said before.
            while isinstance(await call.read(), workers_pb2.ServerMessage):
                pass
    elif method.server_streaming:
        call = client.stream(name, **fields)
    else:
        try:
            await client.call(name, **fields)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""
    return (await call.code()).name, await call.details() or ""


async def test_every_method_needs_its_scope_and_no_other(rpc: Rpc) -> None:
    routes = {f"{route.method} {route.path}": route for route in rpc.api.application.router.routes}
    async with rpc.with_key(None) as nobody:
        for name in METHODS:
            assert (await status_of(nobody, name, str(uuid4())))[0] == "UNAUTHENTICATED", name
    for scope in Scope:
        async with rpc.client(scope) as client:
            for name in METHODS:
                needed = routes[TABLE[name]].scope
                assert needed is not None
                status, text = await status_of(client, name, str(uuid4()))
                if needed is scope:
                    assert status not in {"UNAUTHENTICATED", "PERMISSION_DENIED"}, (name, text)
                else:
                    assert status == "PERMISSION_DENIED", (scope, name, text)


async def test_a_foreign_thing_is_the_same_as_a_missing_one(rpc: Rpc) -> None:
    async with rpc.client(namespace="acme") as acme, rpc.client(namespace="other") as other:
        task_id = (await acme.call("TaskService.Submit", task_type="t", delay=600)).task_id
        await acme.call("ScheduleService.Create", name="s", task_type="t", timetable=CRON)
        missing = str(uuid4())
        for name, method in METHODS.items():
            known = method.input_type.fields_by_name
            if name == "ScheduleService.Create" or not {"task_id", "name"} & set(known):
                continue
            if name.startswith("QueueService.") and name != "QueueService.Resume":
                # A queue of that name is one of their own namespace, and may be set up beforehand.
                continue
            theirs = await status_of(other, name, task_id)
            nobodys = await status_of(other, name, missing)
            assert theirs[0] == nobodys[0] == "NOT_FOUND", (name, theirs)
            assert theirs[1].replace(task_id, missing) == nobodys[1]
        held = await other.call(
            "WorkerService.Heartbeat",
            worker_id="w",
            leases=[workers_pb2.LeaseRef(task_id=task_id, fencing_token=0)],
        )
        assert not held.leases[0].held
        assert not (await other.call("TaskService.List")).tasks
        assert not (await other.call("ScheduleService.List")).schedules
        claim = await other.call("WorkerService.Claim", worker_id="w", task_types=["t"])
        assert not claim.leases
        assert len((await acme.call("TaskService.List")).tasks) == 1


async def test_whatever_is_no_key_is_told_the_same(rpc: Rpc) -> None:
    key = await rpc.api.key()
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    told = set()
    async with rpc.with_key(None) as client:
        for metadata in (
            [],
            [("authorization", "")],
            [("authorization", "Bearer")],
            [("authorization", f"Basic {key}")],
            [("authorization", f"Bearer {key}x")],
            [("authorization", f"Bearer {wrong}")],
            [("x-api-key", key)],
        ):
            client.metadata = metadata
            refused = await client.refused("TaskService.List")
            assert (refused.status, refused.code) == ("UNAUTHENTICATED", "unauthenticated")
            told.add(refused.text)
        assert len(told) == 1
        client.metadata = [("authorization", f"Bearer {key}")] * 2
        assert (await client.refused("TaskService.List")).status == "UNAUTHENTICATED"


async def test_writes_leave_records_also_when_the_caller_leaves(rpc: Rpc) -> None:
    key = await rpc.api.key()
    mine = AuditFilter(actor=key.split("_")[1])
    async with rpc.with_key(key) as client:
        task_id = (await client.call("TaskService.Submit", task_type="t", delay=9)).task_id
        await client.call("TaskService.Cancel", task_id=task_id)
        multicallable, kind = client.method("ScheduleService.Create")
        left = multicallable(
            kind(name="s", task_type="t", timetable=CRON), metadata=client.metadata
        )
        async with asyncio.timeout(10):
            while not (await client.call("ScheduleService.List")).schedules:
                if left.done():
                    break
        left.cancel()
        async with asyncio.timeout(10):
            while len(records := await rpc.api.store.audit(10, mine)) < 3:
                pass
    actions = {record.action: record for _, record in records}
    assert set(actions) == {"task.submit", "task.cancel", "schedule.create"}
    assert actions["task.cancel"].address == "127.0.0.1"
    assert actions["task.cancel"].subject == task_id


def raw(client: Client, kind: str, path: str) -> Any:
    """Return what calls a method with bytes."""
    return getattr(client.channel, kind)(path)


async def test_health_and_reflection_are_there_only_if_asked_for(database: str, rpc: Rpc) -> None:
    check = "/grpc.health.v1.Health/Check"
    reflect = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    async with rpc.with_key(None) as client:
        for path in (check, reflect, "/mainspring.v1.TaskService/Nothing"):
            answer = await refusal(raw(client, "unary_unary", path)(b""))
            assert answer.status == "UNIMPLEMENTED"
    async with (
        rpc_started(database, grpc_health=True, grpc_reflection=True) as open_one,
        open_one.with_key(None) as client,
    ):
        async with asyncio.timeout(10):
            # 1 is SERVING.
            while await raw(client, "unary_unary", check)(b"") != b"\x08\x01":
                pass
        stream = raw(client, "stream_stream", reflect)()
        # list_services
        await stream.write(b"\x3a\x00")
        listed = await stream.read()
        assert b"mainspring.v1.WorkerService" in listed
        await stream.done_writing()
        assert (await client.refused("TaskService.List")).status == "UNAUTHENTICATED"
