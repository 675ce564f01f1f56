"""A worker that is told to stop while the store is away: what has been done is not done again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from integration.worker.bench import PATIENCE, Bench, until
from integration.worker.sample_app import registry
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Settlement
from mainspring.worker import agent as module


class Changing(MemoryStore):
    """Takes no ending while its primary changes."""

    is_changing = False
    refused = 0

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if self.is_changing:
            self.refused += 1
            raise StoreUnavailable("the primary changes")
        return await super().settle(settlements)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(module, "_STORE_SECONDS", 0.05)
    bench = Bench(Changing(SystemClock()), registry(), tmp_path)
    yield bench
    await bench.close()


async def drained_in_vain(bench: Bench, store: Changing) -> tuple[UUID, "asyncio.Task[None]"]:
    """Let a worker drain with an ending that the store does not take."""
    agent = bench.start()
    task_id = await bench.submit("noop")
    store.is_changing = True
    await until(lambda: store.refused > 0)
    drain = asyncio.create_task(agent.drain(PATIENCE))
    tries = store.refused + 4
    await until(lambda: store.refused >= tries)
    return task_id, drain


async def test_an_ending_has_as_long_as_the_drain_may_last(bench: Bench) -> None:
    assert isinstance(bench.store, Changing)
    task_id, drain = await drained_in_vain(bench, bench.store)
    bench.store.is_changing = False
    await asyncio.wait_for(drain, PATIENCE)
    assert (await bench.get(task_id)).status is TaskStatus.COMPLETED


async def test_whoever_asks_again_does_not_wait_for_it(bench: Bench) -> None:
    assert isinstance(bench.store, Changing)
    task_id, drain = await drained_in_vain(bench, bench.store)
    await asyncio.wait_for(bench.agents[0][0].drain(0), PATIENCE)
    await drain
    assert bench.agents[0][0].stats.abandoned == 1
    # It runs again when its lease is over.
    assert (await bench.get(task_id)).status is TaskStatus.RUNNING
