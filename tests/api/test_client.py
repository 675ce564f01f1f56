"""The Python client: the same verbs, and safe to repeat."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from api.conftest import Api
from mainspring import Client
from mainspring.domain.errors import (
    InvalidValue,
    KeyConflict,
    NotFound,
    StoreUnavailable,
    TaskAlreadyFinished,
    Unauthenticated,
    WaitTimedOut,
)
from mainspring.domain.task import Completed, Settlement
from mainspring.ports.store import ClaimRequest


@pytest.fixture
async def api_client(api: Api) -> AsyncIterator[Client]:
    async with Client(api.url, await api.key()) as opened:
        yield opened


async def finish(api: Api) -> None:
    request = ClaimRequest(worker_id="w", limit=1, lease_seconds=60, task_types=("t",))
    (lease,) = (await api.store.claim(request)).leases
    await api.store.settle([Settlement(lease.id, lease.fencing_token, Completed('{"n": 1}'))])


async def test_submit_wait_and_look(api: Api, api_client: Client) -> None:
    task = await api_client.submit("t", {"a": 1}, priority=2)
    with pytest.raises(WaitTimedOut):
        await api_client.wait(task["task_id"], timeout=0.3)
    waiting = asyncio.create_task(api_client.wait(task["task_id"], timeout=20))
    await finish(api)
    ended = await waiting
    assert (ended["status"], ended["result"]) == ("completed", {"n": 1})
    with pytest.raises(TaskAlreadyFinished):
        await api_client.cancel(task["task_id"])
    assert len(await api_client.tasks(status="completed")) == 1


async def test_errors_are_those_of_an_app(api: Api, api_client: Client) -> None:
    with pytest.raises(NotFound):
        await api_client.get("01900000-0000-7000-8000-000000000000")
    with pytest.raises(InvalidValue) as caught:
        await api_client.submit("t", priority=11)
    assert caught.value.field == "priority"
    await api_client.submit("t", {"a": 1}, key="k")
    with pytest.raises(KeyConflict):
        await api_client.submit("t", {"a": 2}, key="k")
    async with Client(api.url, "ms_wrong") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.get("01900000-0000-7000-8000-000000000000")


async def test_a_batch_and_moving(api_client: Client) -> None:
    results = await api_client.submit_many([{"task_type": "t", "delay": 60}] * 3)
    assert [result["status"] for result in results] == [201] * 3
    await api_client.reschedule(results[0]["task_id"], None)
    assert (await api_client.get(results[0]["task_id"]))["ready"] is True
    assert await api_client.cancel(results[1]["task_id"]) == "cancelled"


async def test_nobody_there_is_an_error_of_its_own() -> None:
    async with Client("http://127.0.0.1:9", timeout=1) as nobody:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await nobody.get("01900000-0000-7000-8000-000000000000")
    with pytest.raises(InvalidValue):
        Client("ftp://x")


async def test_a_lost_answer_makes_no_second_task(api: Api) -> None:
    """The first connection is cut after the request was passed on."""
    host, port = api.url.removeprefix("http://").split(":")
    lost = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lost
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        far_writer.write(await reader.read(65536))
        answer = await far_reader.read(65536)
        if lost:
            writer.write(answer)
            await writer.drain()
        lost += 1
        writer.close()
        far_writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        relayed = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{relayed}", await api.key()) as unlucky:
            task = await unlucky.submit("t")
    finally:
        server.close()
    assert lost >= 2
    assert task["is_new"] is False
    async with Client(api.url, await api.key()) as lucky:
        assert len(await lucky.tasks()) == 1
