"""WorkerService: leases come while slots are free, and nobody ends what is another's."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from api.rpc import Client, Rpc, refusal, rpc_shared, rpc_started
from fixtures.postgres import PostgresServer
from mainspring.api._generated import tasks_pb2, workers_pb2
from mainspring.ports.access import Scope

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


class Worker:
    """One side of the stream, message by message."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def say(self, **message: Any) -> None:
        await self.call.write(workers_pb2.WorkerMessage(**message))

    async def hear(self, kind: str) -> Any:
        """Return the next message, which has to be of this kind."""
        async with asyncio.timeout(10):
            message = await self.call.read()
        assert isinstance(message, workers_pb2.ServerMessage), "the stream has ended"
        assert message.WhichOneof("message") == kind, message
        return getattr(message, kind)

    async def end(self) -> str:
        """Return the status that the stream ends with."""
        async with asyncio.timeout(10):
            name: str = (await self.call.code()).name
        return name


@asynccontextmanager
async def working(client: Client, **hello: Any) -> AsyncIterator[Worker]:
    worker = Worker(client.work())
    await worker.say(
        hello=workers_pb2.Hello(**{"worker_id": "w", "task_types": ["t"], "slots": 2, **hello})
    )
    await worker.hear("welcome")
    yield worker
    worker.call.cancel()


def ref(lease: Any) -> dict[str, Any]:
    return {"task_id": lease.task_id, "fencing_token": lease.fencing_token}


async def submit(client: Client, **more: Any) -> str:
    task_id: str = (await client.call("TaskService.Submit", task_type="t", **more)).task_id
    return task_id


async def status(client: Client, task_id: str) -> str:
    task = await client.call("TaskService.Get", task_id=task_id)
    return tasks_pb2.TaskStatus.Name(task.status).removeprefix("TASK_STATUS_").lower()


async def test_leases_come_as_slots_are_free_and_ends_are_answered(client: Client) -> None:
    ids = {await submit(client, payload=f'{{"n":{n}}}') for n in range(4)}
    async with working(client) as worker:
        first, second = await worker.hear("lease"), await worker.hear("lease")
        assert {first.task_id, second.task_id} < ids
        assert first.attempt == 1
        await worker.say(progress=workers_pb2.Progress(**ref(first), progress='{"at":0.5}'))
        await worker.say(complete=workers_pb2.Complete(**ref(first), result="7"))
        ended = await worker.hear("ended")
        assert (ended.accepted, ended.status) == (True, tasks_pb2.TASK_STATUS_COMPLETED)
        third = await worker.hear("lease")
        await worker.say(fail=workers_pb2.Fail(**ref(second), error="E: x", retry=False))
        assert (await worker.hear("ended")).status == tasks_pb2.TASK_STATUS_FAILED
        fourth = await worker.hear("lease")
        assert {one.task_id for one in (first, second, third, fourth)} == ids
        await worker.say(heartbeat=workers_pb2.Beat(leases=[workers_pb2.LeaseRef(**ref(third))]))
        assert [one.held for one in (await worker.hear("renewed")).leases] == [True]
        await worker.say(goodbye=workers_pb2.Goodbye())
        await worker.say(release=workers_pb2.Release(**ref(third)))
        assert (await worker.hear("ended")).status == tasks_pb2.TASK_STATUS_PENDING
        await worker.say(complete=workers_pb2.Complete(**ref(fourth)))
        assert (await worker.hear("ended")).accepted
        assert await worker.end() == "OK"
    assert await status(client, third.task_id) == "pending"
    task = await client.call("TaskService.Get", task_id=first.task_id)
    assert (task.result, task.progress) == ("7", '{"at":0.5}')


async def test_work_that_comes_later_is_pushed_at_once(client: Client) -> None:
    async with working(client) as worker:
        task_id = await submit(client)
        assert (await worker.hear("lease")).task_id == task_id
        await worker.say(slots=workers_pb2.Slots(slots=1))
        await worker.say(heartbeat=workers_pb2.Beat())
        await worker.hear("renewed")
        await submit(client)
        await worker.say(slots=workers_pb2.Slots(slots=5))
        await worker.hear("lease")


async def test_labels_lead_tasks_to_the_workers_that_offer_them(client: Client) -> None:
    plain, needy = await submit(client), await submit(client, labels=["gpu"])
    async with working(client, slots=5) as without:
        assert (await without.hear("lease")).task_id == plain
        async with working(client, worker_id="v", labels=["gpu"]) as worker:
            assert (await worker.hear("lease")).task_id == needy


async def test_a_worker_is_told_to_stop_a_cancelled_task(client: Client) -> None:
    task_id = await submit(client)
    async with working(client) as worker:
        lease = await worker.hear("lease")
        await client.call("TaskService.Cancel", task_id=task_id)
        stop = await worker.hear("stop")
        assert (stop.task_id, stop.lost) == (task_id, False)
        await worker.say(fail=workers_pb2.Fail(**ref(lease), error="told to", cancelled=True))
        assert (await worker.hear("ended")).status == tasks_pb2.TASK_STATUS_CANCELLED


async def test_what_is_lost_is_told_and_its_slot_is_free_again(rpc: Rpc, client: Client) -> None:
    task_id = await submit(client)
    async with working(client, slots=1, lease_seconds=1) as worker:
        old = await worker.hear("lease")
        async with asyncio.timeout(10):
            while not await rpc.api.store.rescue(10):  # noqa: ASYNC110 - only time makes it so
                await asyncio.sleep(0.02)
        stop = await worker.hear("stop")
        assert (stop.task_id, stop.lost) == (task_id, True)
        new = await worker.hear("lease")
        assert (new.task_id, new.attempt) == (task_id, 2)
        await worker.say(complete=workers_pb2.Complete(**ref(old)))
        assert not (await worker.hear("ended")).accepted
        await worker.say(complete=workers_pb2.Complete(**ref(new)))
        assert (await worker.hear("ended")).accepted
        await worker.say(complete=workers_pb2.Complete(**ref(new)))
        assert not (await worker.hear("ended")).accepted


async def test_a_worker_that_comes_back_ends_what_it_had(client: Client) -> None:
    await submit(client)
    async with working(client) as worker:
        lease = await worker.hear("lease")
    async with working(client) as again:
        await again.say(complete=workers_pb2.Complete(**ref(lease)))
        assert (await again.hear("ended")).accepted
    assert await status(client, lease.task_id) == "completed"


async def test_an_end_that_was_said_before_leaving_counts(client: Client) -> None:
    await submit(client)
    async with working(client) as worker:
        lease = await worker.hear("lease")
        await worker.say(complete=workers_pb2.Complete(**ref(lease)))
        await worker.call.done_writing()
        assert (await worker.hear("ended")).accepted
        assert await worker.end() == "OK"


async def test_a_worker_that_is_gone_in_the_middle_of_it_is_no_news(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [tasks_pb2.NewTask(task_type="t")] * 60
    await client.call("TaskService.SubmitBatch", tasks=tasks)
    async with working(client, slots=40) as worker:
        leases = [await worker.hear("lease") for _ in range(40)]
        for lease in leases:
            await worker.say(complete=workers_pb2.Complete(**ref(lease)))
    async with working(client, slots=60) as again:
        await again.hear("lease")
    gc.collect()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_worker_that_lies_changes_nothing(rpc: Rpc, client: Client) -> None:
    task_id = await submit(client)
    waiting = await submit(client, delay=900)
    async with working(client, slots=1) as worker, rpc.client() as thief:
        lease = await worker.hear("lease")
        async with working(thief, slots=1) as other:
            lies: list[dict[str, Any]] = [
                {"task_id": task_id, "fencing_token": lease.fencing_token},
                {"task_id": task_id, "fencing_token": lease.fencing_token + 1},
                {"task_id": waiting, "fencing_token": 0},
                {"task_id": waiting, "fencing_token": 2**63 - 1},
            ]
            for lie in lies:
                await other.say(complete=workers_pb2.Complete(**lie))
                assert not (await other.hear("ended")).accepted
                await other.say(heartbeat=workers_pb2.Beat(leases=[workers_pb2.LeaseRef(**lie)]))
                assert not (await other.hear("renewed")).leases[0].held
                await other.say(progress=workers_pb2.Progress(**lie, progress="1"))
                assert (await other.hear("refused")).code == "stale_lease"
            await other.say(complete=workers_pb2.Complete(task_id="x", fencing_token=1))
            refused = await other.hear("refused")
            assert (refused.code, refused.field) == ("invalid_value", "task_id")
            await other.say(complete=workers_pb2.Complete(**lies[0], result="{"))
            assert (await other.hear("refused")).code == "malformed_request"
            await other.say(fail=workers_pb2.Fail(**lies[0], error="e", kind=99))  # type: ignore[arg-type]
            assert (await other.hear("refused")).field == "kind"
    assert await status(client, task_id) == "running"
    assert await status(client, waiting) == "pending"


async def test_who_does_not_say_hello_is_let_go(client: Client) -> None:
    for first in (
        workers_pb2.WorkerMessage(),
        workers_pb2.WorkerMessage(goodbye=workers_pb2.Goodbye()),
        workers_pb2.WorkerMessage(hello=workers_pb2.Hello(worker_id="w")),
        workers_pb2.WorkerMessage(hello=workers_pb2.Hello(worker_id="a b", task_types=["t"])),
        workers_pb2.WorkerMessage(
            hello=workers_pb2.Hello(worker_id="w", task_types=["t"], slots=10**6)
        ),
        b"\xff\xff",
    ):
        call = client.work()
        await call.write(first)
        assert (await refusal(call.read())).status == "INVALID_ARGUMENT", first


async def test_a_stream_ends_with_its_key(rpc: Rpc) -> None:
    key = await rpc.api.key(Scope.WORK, Scope.READ, Scope.SUBMIT)
    async with rpc.with_key(key) as client:
        task_id = await submit(client, delay=600)
        watch = client.stream("TaskService.Watch", task_id=task_id)
        assert (await watch.read()).name == "pending"
        async with working(client) as worker:
            await rpc.api.store.revoke_key(key.split("_")[1])
            async with asyncio.timeout(5):
                assert await worker.end() == "UNAUTHENTICATED"
                assert (await watch.code()).name == "UNAUTHENTICATED"


async def test_a_server_that_stops_says_so_and_takes_what_ends_in_time(database: str) -> None:
    async with AsyncExitStack() as running:
        rpc = await running.enter_async_context(rpc_started(database))
        async with rpc.client() as client:
            task_id = await submit(client)
            watch = client.stream("TaskService.Watch", task_id=await submit(client, delay=600))
            assert (await watch.read()).name == "pending"
            async with working(client) as worker:
                lease = await worker.hear("lease")
                beat = workers_pb2.Beat(leases=[workers_pb2.LeaseRef(**ref(lease))])
                await worker.say(heartbeat=beat)
                await worker.hear("renewed")
                stopping = asyncio.create_task(running.aclose())
                await worker.hear("closing")
                await worker.say(complete=workers_pb2.Complete(**ref(lease)))
                assert (await worker.hear("ended")).accepted
                async with asyncio.timeout(6):
                    assert (await watch.code()).name == "UNAVAILABLE"
                    assert await worker.end() == "UNAVAILABLE"
                    await stopping
    async with rpc_started(database) as again, again.client() as client:
        assert await status(client, task_id) == "completed"
        # What was summed is on record when the server has stopped.
        actions = {record.action for _, record in await again.api.store.audit(20)}
        assert {"lease.claim", "lease.renew", "lease.complete"} <= actions
