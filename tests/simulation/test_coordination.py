"""Schedulers that share partitions out, in virtual time: they die, stand still in the middle of a
tick, lose the store, the coordination or each other, and the coordination forgets everything. Every
nominal time has to become a run once, and no write may be accepted under an epoch that is not the
latest of its partition.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mainspring.adapters.memory.coordination import MemoryCoordination
from mainspring.adapters.memory.partitions import MemoryEpochs
from mainspring.adapters.memory.store import MemoryStore
from mainspring.domain.ids import partition_of
from mainspring.ports.coordination import Fence
from mainspring.ports.hooks import HookPoint
from mainspring.ports.schedules import Committed, SchedulePlan
from mainspring.scheduler.ownership import Ownership
from mainspring.scheduler.planner import Planner
from mainspring.scheduler.service import SchedulerService
from simulation.network import CURRENT, Connection, Process, StoreClock
from simulation.test_schedules import House, NoWatcher, plan_without_revision, violations
from simulation.virtual_loop import run_virtual

SEEDS = int(os.environ.get("SIMULATION_COORDINATION_SEEDS", "2"))
TTL_SECONDS = 10.0
LOAD_SECONDS = 120.0
STILL_SHARE = 0.06
"""Of the steps of planners, those that stand still before they are stored."""


class WitnessStore(MemoryStore):
    """Writes down under which epochs plans are accepted, and what comes too late."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.latest: dict[int, int] = {}
        self.wrong: list[str] = []
        self.refused = 0

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        answers = await super().commit_plans(plans, fence)
        for plan, answer in zip(plans, answers, strict=True):
            partition = partition_of(plan.schedule.id)
            self.refused += answer.is_stale
            if fence is None or not answer.is_stored:
                continue
            epoch, latest = fence.epochs[partition], self.latest.get(partition, 0)
            if epoch < latest:
                self.wrong.append(f"{partition} was planned under {epoch} after {latest}")
            self.latest[partition] = max(epoch, latest)
        return answers


class StillHooks:
    """Now and then stops a process with a step on its way, for longer than its session lasts."""

    def __init__(self, town: "Town") -> None:
        self.town = town

    async def reach(self, point: HookPoint) -> None:
        town, call = self.town, CURRENT.get()
        if point is HookPoint.TICK_BEFORE_INSERT and call is not None:
            process = town.by_name[call.process]
            if town.is_troubled and not process.is_dead and town.chance.random() < STILL_SHARE:
                seconds = town.chance.uniform(TTL_SECONDS, 3 * TTL_SECONDS)
                process.stop(seconds)
                await asyncio.sleep(seconds + 0.001)
        await town.hooks.reach(point)


class Seat:
    """A session as one process reaches it."""

    def __init__(self, session: Any, wire: Connection) -> None:
        self._session = session
        self._wire = wire

    @property
    def ttl_seconds(self) -> float:
        return float(self._session.ttl_seconds)

    async def changed(self, timeout_seconds: float) -> None:
        await self._session.changed(timeout_seconds)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return getattr(self._wire, name)  # type: ignore[no-any-return]


class Meeting:
    """The coordination as one process reaches it."""

    def __init__(self, house: "Town", process: Process) -> None:
        self.house = house
        self.process = process

    async def join(self, member: str, ttl_seconds: float) -> Any:
        wire = self._wire(self.house.coordination)
        session = await wire.join(member, ttl_seconds)
        return Seat(session, self._wire(session))

    async def close(self) -> None:
        """Nothing is held."""

    def _wire(self, target: Any) -> Connection:
        return Connection(target, self.process, self.house.weather, NoWatcher())


class Town(House):
    """A house with schedulers that meet."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.load_seconds = LOAD_SECONDS
        self.is_troubled = False
        self.by_name: dict[str, Process] = {}
        self.store = WitnessStore(StoreClock(), hooks=StillHooks(self))
        self.schedules._store = self.store
        self.coordination = MemoryCoordination(StoreClock())
        self.count = 0

    def add_planner(self) -> None:
        self.count += 1
        process = Process(f"s{self.count}", random.Random(self.chance.random()))
        process.skew_seconds = self.chance.choice((0.0, -3600.0, 86400.0))
        self.by_name[process.name] = process
        store: Any = Connection(self.store, process, self.weather, NoWatcher())
        ownership = Ownership(
            Meeting(self, process),
            store,
            process,
            process,
            member=process.name,
            ttl_seconds=TTL_SECONDS,
        )
        planner = Planner(store, process, process, self.ids, ownership=ownership)
        self.planners.append(process)
        process.start(SchedulerService([ownership, planner]).run())

    async def trouble(self) -> None:
        """What befalls the coordination alone."""
        while True:
            await asyncio.sleep(self.chance.uniform(5.0, 60.0))
            if self.chance.random() < 0.3:
                self.coordination.wipe()
                continue
            self.coordination.take_down(is_down=True)
            await asyncio.sleep(self.chance.uniform(1.0, 3 * TTL_SECONDS))
            self.coordination.take_down(is_down=False)

    async def disturb(self) -> None:
        troubles = asyncio.create_task(self.trouble())
        self.is_troubled = True
        await super().disturb()
        self.is_troubled = False
        troubles.cancel()
        self.coordination.take_down(is_down=False)


def found_in(number: int) -> tuple[list[str], WitnessStore]:
    town = Town(number)

    async def whole() -> list[str]:
        await town.play()
        return await violations(town)

    found = run_virtual(whole())
    assert isinstance(town.store, WitnessStore)
    return found + town.store.wrong, town.store


@pytest.mark.parametrize("number", range(SEEDS))
def test_every_nominal_time_once_under_epochs_that_only_rise(seed: int, number: int) -> None:
    found, store = found_in(seed * 1000 + number)
    assert not found, f"seed {seed} number {number}: {len(found)}: {found[:5]}"
    assert store.latest


def test_epochs_alone_keep_old_owners_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Revisions do most of the work, so they are taken away to see the other guard."""
    plan_without_revision(monkeypatch)
    stores = [found_in(number)[1] for number in range(2)]
    assert not [wrong for store in stores for wrong in store.wrong]
    assert sum(store.refused for store in stores)


def test_a_store_that_does_not_compare_epochs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_without_revision(monkeypatch)
    monkeypatch.setattr(MemoryEpochs, "holds", lambda *_: True)
    assert any(found_in(number)[1].wrong for number in range(5))
