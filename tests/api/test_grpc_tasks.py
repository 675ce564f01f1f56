"""TaskService and DeadLetterService: what REST does, said in another way."""

from collections.abc import AsyncIterator

import pytest

from api.rpc import Client, Rpc, rpc_started


@pytest.fixture
async def rpc(database: str) -> AsyncIterator[Rpc]:
    async with rpc_started(database) as running:
        yield running


@pytest.fixture
async def client(rpc: Rpc) -> AsyncIterator[Client]:
    async with rpc.client() as opened:
        yield opened


async def test_submit_and_look(client: Client) -> None:
    made = await client.call(
        "TaskService.Submit", task_type="t", payload='{"n": 9007199254740993}', delay=600.0, key="k"
    )
    assert (made.is_new, made.status, made.queue, made.priority) == (True, 1, "default", 5)
    task = await client.call("TaskService.Get", task_id=made.task_id)
    assert task.payload == '{"n":9007199254740993}'
