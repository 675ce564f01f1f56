"""The bad inputs of RELIABILITY 4.2 on gRPC: a stated status, soon, and nothing is left broken."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import psutil
import pytest
import pytest_asyncio

from api.conftest import started
from api.rpc import METHODS, Client, Rpc, path_of, refusal, rpc_shared, rpc_started
from api.test_bad_input import FIELDS, FINE, MALFORMED
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import proxy_to
from mainspring.api._generated import tasks_pb2, workers_pb2
from mainspring.domain.errors import AddressInUse, InvalidConfiguration

BACKOFFS = {"sometimes": 77}
NOT_IN_A_MESSAGE = {"escaped key twice"}


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


def payloads() -> dict[str, str]:
    """The payloads of the malformed bodies, as far as they are text; a message holds no other."""
    found = {}
    for name, body in MALFORMED.items():
        _, mark, rest = body.partition(b'"payload":')
        try:
            text = rest[:-1].decode()
        except UnicodeDecodeError:
            continue
        if mark:
            found[name] = text
    return found


def fields_of(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a new task as a message has them; None for what none can hold."""
    fields = {"task_type": "t", **given}
    if "payload" in fields:
        fields["payload"] = json.dumps(fields["payload"])
    backoff = fields.get("retry_backoff")
    if isinstance(backoff, str):
        fields["retry_backoff"] = {"kind": BACKOFFS[backoff]}
    elif isinstance(backoff, dict):
        fields["retry_backoff"] = {**backoff, "kind": tasks_pb2.BACKOFF_KIND_LINEAR}
    try:
        tasks_pb2.NewTask(**fields)
    except (TypeError, ValueError):
        return None
    return fields


async def check_still_well(client: Client) -> None:
    await client.call("TaskService.Submit", task_type="good")
    for name in ("TaskService.List", "DeadLetterService.List", "ScheduleService.List"):
        await client.call(name)


async def test_malformed_payloads_and_wrong_fields(client: Client) -> None:
    for name, payload in payloads().items():
        for _ in range(3):
            refused = await client.refused("TaskService.Submit", task_type="t", payload=payload)
            assert refused.status == "INVALID_ARGUMENT", name
            assert refused.code in {"malformed_request", "payload_too_large", "invalid_value"}
            assert len(refused.text) < 2000
    tried = 0
    for name, given in FIELDS.items():
        fields = fields_of(given)
        if fields is None or given.get("task_type", "") is None:
            continue
        tried += 1
        refused = await client.refused("TaskService.Submit", **fields)
        assert (refused.status, bool(refused.field)) == ("INVALID_ARGUMENT", True), name
    assert tried >= 40
    assert not (await client.call("TaskService.List")).tasks
    await check_still_well(client)


async def test_what_is_unusual_but_fine_comes_back_exactly(client: Client) -> None:
    for name, given in FINE.items():
        fields = fields_of({key: value for key, value in given.items() if key != "priority"})
        assert fields is not None, name
        made = await client.call("TaskService.Submit", **fields)
        back = await client.call("TaskService.Get", task_id=made.task_id)
        if "payload" in given:
            sent = json.dumps(given["payload"], sort_keys=True)
            assert json.dumps(json.loads(back.payload), sort_keys=True) == sent, name
        assert back.key == given.get("key", "")


async def test_messages_that_are_none_too_large_or_of_another_version(
    rpc: Rpc, client: Client
) -> None:
    method, _ = client.method("TaskService.Submit")
    before = psutil.Process().memory_info().rss
    bad: dict[str, bytes] = {
        "not a message": b"\xff\xff\xff",
        "half a message": tasks_pb2.NewTask(task_type="t").SerializeToString()[:-1],
        "text beyond utf-8": b"\x0a\x01\xff",
        "surrogate": b"\x0a\x03\xed\xa0\x80",
        "unknown field": b"\x0a\x01t\xf8\x07\x01",
        "missing required": b"",
        "1 MiB and more": tasks_pb2.NewTask(key="x" * 1024 * 1024).SerializeToString(),
    }
    for name, data in bad.items():
        refused = await refusal(method(data, metadata=client.metadata))
        assert refused.status == "INVALID_ARGUMENT", name
    huge = await refusal(method(bytes(18 * 1024 * 1024), metadata=client.metadata))
    assert huge.status == "RESOURCE_EXHAUSTED"
    batch, _ = client.method("TaskService.SubmitBatch")
    large = tasks_pb2.SubmitBatchRequest(tasks=[tasks_pb2.NewTask(key="x" * 1024 * 1024)] * 3)
    answer = await batch(large, metadata=client.metadata)
    assert [item.code for item in answer.results] == ["payload_too_large"] * 3
    many = tasks_pb2.SubmitBatchRequest(tasks=[tasks_pb2.NewTask(task_type="t")] * 10_001)
    assert (await refusal(batch(many, metadata=client.metadata))).code == "payload_too_large"
    bomb = await refusal(
        method(
            tasks_pb2.NewTask(task_type="t", payload=" " * 500_000 + "{}"),
            metadata=client.metadata,
            compression=grpc.Compression.Gzip,
        )
    )
    assert bomb.status in {"UNIMPLEMENTED", "INVALID_ARGUMENT"}
    head = await refusal(
        method(tasks_pb2.NewTask(), metadata=[*client.metadata, ("x-big", "x" * 20_000)])
    )
    assert head.status in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
    kinds = workers_pb2.ClaimRequest(worker_id="w", task_types=["t"], levels=[9])  # type: ignore[list-item]
    claim, _ = client.method("WorkerService.Claim")
    assert (await refusal(claim(kinds, metadata=client.metadata))).field == "levels[0]"
    assert (await client.refused("TaskService.List", cursor="x")).status == "INVALID_ARGUMENT"
    assert (await client.refused("TaskService.List", limit=0)).status == "INVALID_ARGUMENT"
    await check_still_well(client)
    assert psutil.Process().memory_info().rss - before < 200 * 1024 * 1024


async def test_callers_that_leave_and_streams_without_end(rpc: Rpc, client: Client) -> None:
    submit, kind = client.method("TaskService.Submit")
    late = await refusal(submit(kind(task_type="t"), metadata=client.metadata, timeout=0))
    assert late.status == "DEADLINE_EXCEEDED"
    calls = [submit(kind(task_type="left"), metadata=client.metadata) for _ in range(50)]
    for call in calls:
        call.cancel()
    claims = [
        client.method("WorkerService.Claim")[0](
            workers_pb2.ClaimRequest(worker_id="w", task_types=["none"], wait_seconds=30),
            metadata=client.metadata,
            timeout=1.5,
        )
        for _ in range(10)
    ]
    for claim in claims:
        # A claim is answered before its deadline, so that no lease is lost with the answer.
        assert not (await claim).leases
    tasks = [tasks_pb2.NewTask(task_type="t", delay=600)] * 300
    made = await client.call("TaskService.SubmitBatch", tasks=tasks)
    streams = [client.stream("TaskService.Watch", task_id=item.task_id) for item in made.results]
    hello = workers_pb2.WorkerMessage(
        hello=workers_pb2.Hello(worker_id="w", task_types=["none"], slots=10)
    )
    workers = [client.work() for _ in range(100)]
    async with asyncio.timeout(30):
        for event in await asyncio.gather(*(stream.read() for stream in streams)):
            assert event.name == "pending"
        await asyncio.gather(*(worker.write(hello) for worker in workers))
        for message in await asyncio.gather(*(worker.read() for worker in workers)):
            assert message.HasField("welcome")
        began = time.monotonic()
        await check_still_well(client)
        assert time.monotonic() - began < 2
        for stream in (*streams, *workers):
            stream.cancel()
        # Those who left are forgotten.
        while len(asyncio.all_tasks()) > 80:
            await client.call("TaskService.List", limit=1)


async def test_who_sends_nothing_is_let_go(
    rpc: Rpc, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.api.rpc.reading.MESSAGE_SECONDS", 0.3)
    paths = [path_of(METHODS[name]) for name in ("TaskService.Submit", "WorkerService.Work")]
    for path in paths:
        call: Any = client.channel.stream_stream(path)(metadata=client.metadata)
        assert (await refusal(call.read())).code == "request_timeout"
        call = client.channel.stream_stream(path)(metadata=client.metadata)
        await call.done_writing()
        assert (await refusal(call.read())).code == "malformed_request"
        # Without a key it is over at once.
        monkeypatch.setattr("mainspring.api.rpc.reading.MESSAGE_SECONDS", 60)
        call = client.channel.stream_stream(path)()
        assert (await refusal(call.read())).status == "UNAUTHENTICATED"
        monkeypatch.setattr("mainspring.api.rpc.reading.MESSAGE_SECONDS", 0.3)
    await check_still_well(client)


@pytest.mark.fault
async def test_an_outage_is_answered_in_time_and_survived(
    database: str, postgres_server: PostgresServer
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    async with (
        proxy_to(postgres_server.tcp_dsn(name)) as (proxy, dsn),
        rpc_started(dsn) as rpc,
        rpc.client() as client,
    ):
        task_id = (await client.call("TaskService.Submit", task_type="t", delay=60)).task_id
        worker = client.work()
        await worker.write(
            workers_pb2.WorkerMessage(hello=workers_pb2.Hello(worker_id="w", task_types=["t"]))
        )
        assert (await worker.read()).HasField("welcome")
        proxy.swallow_requests = proxy.swallow_replies = True

        async def refused(method: str, **fields: Any) -> None:
            began = time.monotonic()
            answer = await client.refused(method, **fields)
            assert (answer.status, method) == ("UNAVAILABLE", method)
            assert time.monotonic() - began < 5.5, method
            assert answer.retry_after

        await asyncio.gather(
            refused("TaskService.Get", task_id=task_id),
            refused("TaskService.Cancel", task_id=task_id),
            refused("TaskService.Submit", task_type="t"),
            refused("ScheduleService.List"),
        )
        proxy.swallow_requests = proxy.swallow_replies = False
        await proxy.close()
        async with asyncio.timeout(8):
            while True:
                with suppress(grpc.aio.AioRpcError):
                    made = await client.call("TaskService.Submit", task_type="t")
                    break
        async with asyncio.timeout(8):
            assert (await worker.read()).lease.task_id == made.task_id
        worker.cancel()


async def test_it_does_not_start_where_it_must_not(rpc: Rpc, database: str) -> None:
    port = int(rpc.target.rpartition(":")[2])
    with pytest.raises(AddressInUse, match=f"gRPC API cannot listen on 127.0.0.1 port {port}"):
        async with started(database, grpc_port=port):
            pass
    with pytest.raises(InvalidConfiguration, match="auth is off"):
        async with started(database, grpc_port=0, auth=False, host="0.0.0.0"):
            pass
    async with started(database, grpc_port=-1) as without:
        assert not any("gRPC" in line for line in without.said)
    async with rpc_started(database, auth=False) as open_one, open_one.with_key(None) as client:
        await check_still_well(client)


async def test_the_process_has_not_grown() -> None:
    """What all the above left behind in this process, which is client and server in one."""
    assert psutil.Process(os.getpid()).memory_info().rss < 600 * 1024 * 1024
