"""Batches of endings: how they form, how long they are tried, what becomes of each."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
import structlog

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemChance, SystemIds
from mainspring.core.registry import Mode, Registry
from mainspring.domain.errors import MainspringError, SetupError, StoreUnavailable
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CommittedElsewhere, Completed, NewTask, Released, Settlement
from mainspring.ports.store import ClaimRequest
from mainspring.worker.completer import Completer
from mainspring.worker.held import Held, Holdings, WorkerStats
from mainspring.worker.options import WorkerOptions
from mainspring.worker.setting import Setting
from manual_clock import ManualClock


class Slow(MemoryStore):
    """Settles when the test lets it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.batches: list[int] = []
        self.refusal: MainspringError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(len(settlements))
        await self.gate.wait()
        return await super().settle(settlements)


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Slow(self.clock)
        self.holdings: Holdings = {}
        self.stats = WorkerStats()
        setting = Setting(
            self.store,
            self.clock,
            SystemChance(),
            Registry(),
            "worker",
            WorkerOptions(claim_limit=10),
            structlog.get_logger(),
        )
        self.completer = Completer(setting, self.holdings, self.stats)

    async def hold(self, count: int) -> list[Held]:
        ids = SystemIds()
        await self.store.submit([NewTask(id=ids.task_id(), task_type="work") for _ in range(count)])
        request = ClaimRequest(
            worker_id="worker", limit=count, lease_seconds=60.0, task_types=("work",)
        )
        now = self.clock.monotonic()
        for lease in (await self.store.claim(request)).leases:
            number = len(self.holdings) + 1
            self.holdings[number] = Held(number, lease, Mode.ASYNC, now, now + 60.0)
        return list(self.holdings.values())


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_batches_form_while_others_are_on_their_way(scene: Scene) -> None:
    held = await scene.hold(40)
    scene.store.gate.clear()
    scene.completer.add(held[0], Completed())
    await asyncio.sleep(0)
    for each in held[1:]:
        scene.completer.add(each, Completed())
    await asyncio.sleep(0)
    # The first went alone; a full batch goes beside it, and the rest waits for one of the two.
    assert scene.store.batches == [1, 10]
    scene.store.gate.set()
    await scene.completer.finish()
    assert sum(scene.store.batches) == 40
    assert max(scene.store.batches) == 10
    assert scene.stats.completed == 40
    assert scene.holdings == {}


@pytest.mark.parametrize("refusal", [StoreUnavailable("away"), SetupError("no such password")])
async def test_an_ending_outlives_an_outage_that_is_longer_than_its_lease(
    scene: Scene, refusal: MainspringError
) -> None:
    (held,) = await scene.hold(1)
    scene.store.refusal = refusal
    scene.completer.add(held, Completed())
    for _ in range(30):
        await scene.clock.sleeping()
        scene.clock.advance(5)
    await scene.clock.sleeping()
    assert held.expires_at < scene.clock.monotonic()
    scene.store.refusal = None
    scene.clock.advance(5)
    await scene.completer.finish()
    assert (scene.stats.completed, scene.stats.abandoned) == (1, 0)
    assert scene.holdings == {}


async def test_what_was_completed_elsewhere_is_counted_once_however_long_the_others_take(
    scene: Scene,
) -> None:
    elsewhere, here = await scene.hold(2)
    lease = elsewhere.reference
    await scene.store.settle([Settlement(lease.id, lease.fencing_token, Completed())])
    scene.store.refusal = StoreUnavailable("away")
    scene.completer.add(elsewhere, CommittedElsewhere())
    scene.completer.add(here, Completed())
    for _ in range(3):
        await scene.clock.sleeping()
        scene.clock.advance(5)
    await scene.clock.sleeping()
    scene.store.refusal = None
    scene.clock.advance(5)
    await scene.completer.finish()
    assert scene.stats.completed == 2


async def test_a_stale_ending_is_counted_apart_and_changes_nothing(scene: Scene) -> None:
    lost, kept = await scene.hold(2)
    scene.clock.advance(61)
    (rescued,) = await scene.store.rescue(1)
    for held in (lost, kept):
        scene.completer.add(held, Completed('"x"'))
    await scene.completer.finish()
    assert (scene.stats.stale, scene.stats.completed, scene.stats.repeated) == (1, 1, 0)
    task = await scene.store.get(rescued.id)
    assert task is not None
    assert (task.status, task.result) == (TaskStatus.PENDING, None)


async def test_what_cannot_be_stored_in_time_is_given_up_when_the_worker_ends(
    scene: Scene,
) -> None:
    (held,) = await scene.hold(1)
    scene.store.refusal = StoreUnavailable("away")
    scene.completer.add(held, Released())
    await scene.clock.sleeping()
    await scene.completer.close()
    assert scene.holdings == {}


async def test_the_end_of_a_task_of_a_group_is_told(scene: Scene) -> None:
    plain, grouped = await scene.hold(2)
    lease = msgspec.structs.replace(grouped.lease, group_key="acme")
    grouped.lease = lease
    scene.completer.add(plain, Completed())
    await scene.completer.finish()
    assert not scene.completer.has_freed.is_set()
    scene.completer.add(grouped, Completed())
    await scene.completer.finish()
    assert scene.completer.has_freed.is_set()
