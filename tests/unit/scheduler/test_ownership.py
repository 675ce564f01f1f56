"""Owning a share of the partitions: taking over, handing over, and stopping in time."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from typing import NoReturn

import pytest

from mainspring.adapters.memory.coordination import MemoryCoordination
from mainspring.adapters.memory.store import MemoryStore
from mainspring.domain.errors import SetupError, Unavailable
from mainspring.domain.ids import PARTITIONS
from mainspring.ports.coordination import PartitionState
from mainspring.scheduler.ownership import TRUSTED_SHARE, Ownership
from manual_clock import ManualClock

TTL = 10.0
ALL = set(range(PARTITIONS))


class Store(MemoryStore):
    """A store that can be cut off."""

    is_down = False
    is_wrong = False

    async def partition_states(self) -> list[PartitionState]:
        self._reached()
        return await super().partition_states()

    async def raise_epochs(self, partitions: Collection[int], owner: str) -> dict[int, int]:
        self._reached()
        return await super().raise_epochs(partitions, owner)

    def _reached(self) -> None:
        if self.is_down:
            raise Unavailable("the store is down")
        if self.is_wrong:
            raise SetupError("the store refuses the password")


async def refuse(member: str, ttl_seconds: float) -> NoReturn:
    del member, ttl_seconds
    raise SetupError("etcd refuses the password")


class Chance(random.Random):
    pass


class Town:
    """Schedulers that meet, on one clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.coordination = MemoryCoordination(self.clock)

    def scheduler(self, name: str, store: MemoryStore | None = None) -> Ownership:
        return Ownership(
            self.coordination,
            store or self.store,
            self.clock,
            Chance(1),
            member=name,
            ttl_seconds=TTL,
        )

    async def settle(self, *schedulers: Ownership) -> None:
        for _ in range(3):
            for one in schedulers:
                await one.run_once()

    async def owners(self) -> list[str | None]:
        return [state.owner for state in await self.store.partition_states()]


def owned(scheduler: Ownership) -> set[int]:
    return set(scheduler.fence().epochs)


@pytest.fixture
def town() -> Town:
    return Town()


async def test_one_alone_owns_everything_after_one_round(town: Town) -> None:
    one = town.scheduler("one")
    assert await one.run_once() == PARTITIONS
    assert owned(one) == ALL
    assert set(await town.owners()) == {"one"}
    await asyncio.wait_for(one.joined(), 1)
    await asyncio.wait_for(one.gained(), 1)


async def test_a_second_one_gets_its_half_and_each_epoch_has_one_owner(town: Town) -> None:
    one, two = town.scheduler("one"), town.scheduler("two")
    await one.run_once()
    before = one.fence().epochs
    await town.settle(two, one, two)
    assert len(owned(one)) == len(owned(two)) == PARTITIONS // 2
    assert owned(one) | owned(two) == ALL
    assert all(two.fence().epochs[part] == before[part] + 1 for part in owned(two))
    assert {one.fence().epochs[part] - before[part] for part in owned(one)} == {0}


async def test_whoever_leaves_hands_over_at_once(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one, two = town.scheduler("one"), town.scheduler("two")
    await town.settle(one, two)
    running = asyncio.create_task(one.run())
    await town.clock.sleeping()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert owned(one) == set()
    await two.run_once()
    assert owned(two) == ALL
    said = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("one handed over partitions") for text in said)
    assert any(text.startswith("two gained partitions") for text in said)
    assert said[-1].endswith("it owns 64 of 64")


async def test_a_dead_one_is_followed_after_its_session(town: Town) -> None:
    one, two = town.scheduler("one"), town.scheduler("two")
    await town.settle(one, two)
    kept = owned(one)
    for _ in range(3):
        town.clock.advance(TTL / 4)
        await two.run_once()
    assert owned(two) == ALL - kept
    town.clock.advance(TTL / 4 + 0.1)
    await two.run_once()
    assert owned(two) == ALL


async def test_it_stops_by_itself_before_its_session_can_have_ended(town: Town) -> None:
    one = town.scheduler("one")
    await one.run_once()
    town.coordination.take_down(is_down=True)
    town.clock.advance(TRUSTED_SHARE * TTL - 0.1)
    await one.run_once()
    assert owned(one) == ALL
    town.clock.advance(0.2)
    assert owned(one) == set()


async def test_what_has_to_be_set_right_is_raised_at_the_start_and_survived_later(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.store.is_wrong = True
    coordination, town.coordination.join = town.coordination.join, refuse  # type: ignore[method-assign]
    with pytest.raises(SetupError):
        await town.scheduler("other").run_once()
    town.coordination.join = coordination  # type: ignore[method-assign]
    town.store.is_wrong = False

    one = town.scheduler("one")
    await one.run_once()
    town.store.is_wrong = True
    for _ in range(4):
        town.clock.advance(TTL / 4)
        await one.run_once()
    assert owned(one) == set()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["coordination of schedulers waits: the store refuses the password"]
    town.store.is_wrong = False
    await town.settle(one)
    assert owned(one) == ALL


async def test_an_outage_that_the_session_outlives_changes_no_epoch(town: Town) -> None:
    one = town.scheduler("one")
    await one.run_once()
    before = one.fence()
    town.coordination.take_down(is_down=True)
    town.clock.advance(TTL * 0.9)
    await one.run_once()
    assert owned(one) == set()
    town.coordination.take_down(is_down=False)
    await one.run_once()
    assert one.fence() == before


async def test_after_everything_was_forgotten_epochs_only_rise(town: Town) -> None:
    one, two = town.scheduler("one"), town.scheduler("two")
    await town.settle(one, two)
    before = {state.partition: state.epoch for state in await town.store.partition_states()}
    town.coordination.wipe()
    town.clock.advance(TTL / 4)
    await town.settle(one, two)
    assert owned(one) | owned(two) == ALL
    assert not owned(one) & owned(two)
    for state in await town.store.partition_states():
        assert state.epoch > before[state.partition]


async def test_who_cannot_reach_the_store_leaves_its_share_to_others(town: Town) -> None:
    far = Store(town.clock)
    far._epochs, far._owners = town.store._epochs, town.store._owners
    one, two = town.scheduler("one", far), town.scheduler("two")
    await town.settle(one, two)
    far.is_down = True
    for _ in range(5):
        town.clock.advance(TTL / 4)
        await one.run_once()
        await two.run_once()
    assert owned(one) == set()
    assert owned(two) == ALL


async def test_a_refused_epoch_is_given_up_and_asked_for_again(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    one = town.scheduler("one")
    await one.run_once()
    before = one.fence().epochs[7]
    await town.store.raise_epochs([7], "somebody")
    one.refuse([7, 8])
    assert owned(one) == ALL - {7, 8}
    await one.run_once()
    assert one.fence().epochs[7] == before + 2
    one.refuse([])
    assert "a later epoch" in caplog.text


async def test_a_renewal_finds_out_about_later_epochs(town: Town) -> None:
    one = town.scheduler("one")
    await one.run_once()
    await town.store.raise_epochs([7], "somebody")
    town.clock.advance(TTL / 4)
    await one.run_once()
    epochs = {state.partition: state.epoch for state in await town.store.partition_states()}
    assert one.fence().epochs == epochs


@pytest.fixture
async def running(town: Town) -> AsyncIterator[list[Ownership]]:
    schedulers = [town.scheduler(f"s{number}") for number in range(4)]
    tasks = [asyncio.create_task(one.run()) for one in schedulers]
    yield schedulers
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_four_that_start_together_share_out_evenly(
    town: Town, running: list[Ownership]
) -> None:
    for _ in range(40):
        await asyncio.sleep(0.001)
        town.clock.advance(0.1)
    assert [len(owned(one)) for one in running] == [16] * 4
    assert set().union(*map(owned, running)) == ALL


async def test_an_outage_is_reported_once_and_so_is_its_end(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one = town.scheduler("one")
    town.coordination.take_down(is_down=True)
    for _ in range(3):
        assert await one.run_once() == 0
    town.coordination.take_down(is_down=False)
    await one.run_once()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "coordination of schedulers waits: the coordination is down"
    assert said[-1].startswith("coordination of schedulers goes on after 3 failed rounds")
    assert len(said) == 4
