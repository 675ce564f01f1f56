"""Claims whose answer is lost: what they leased starts soon, and is charged nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.worker.bench import PATIENCE, Bench, until
from integration.worker.cut_store import CutStore
from integration.worker.sample_app import registry
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import LeaseRef
from mainspring.worker import strays as module


class Asked(CutStore):
    """Counts how often a worker asks for its leases."""

    looks = 0

    async def leases_of(self, worker_id: str) -> list[LeaseRef]:
        self.looks += 1
        return await super().leases_of(worker_id)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(module, "SOON_SECONDS", 0.05)
    monkeypatch.setattr(module, "LATER_SECONDS", 0.1)
    return Asked()


@pytest.fixture
async def bench(store: Asked, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(store, registry(), tmp_path)
    yield bench
    await bench.close()


async def test_what_a_lost_answer_leased_starts_before_the_lease_is_over(
    bench: Bench, store: Asked
) -> None:
    store.lose_claims(2)
    bench.start()
    ids = [await bench.submit("noop") for _ in range(5)]
    for task in await bench.ended(*ids):
        assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert store.looks > 0


async def test_nothing_that_runs_is_taken_for_it(bench: Bench, store: Asked) -> None:
    bench.start()
    running = await bench.submit("asleep", {"log": bench.log, "seconds": 0.6})
    await bench.noted("start")
    store.lose_claims(1)
    lost = await bench.submit("noop")
    (task,) = await bench.ended(lost)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    (task,) = await bench.ended(running)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert store.looks > 0


async def test_a_worker_that_ends_in_doubt_leaves_nothing(
    bench: Bench, store: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOON_SECONDS", 2 * PATIENCE)
    agent = bench.start()
    store.lose_claims(1)
    lost = await bench.submit("noop")
    await until(lambda: store.lost_claims == 0)
    await agent.drain(PATIENCE)
    task = await bench.get(lost)
    assert (task.status, task.attempt_count) == (TaskStatus.PENDING, 0)


async def test_nobody_asks_while_all_is_well(bench: Bench, store: Asked) -> None:
    bench.start()
    await bench.ended(await bench.submit("noop"))
    assert store.looks == 0
