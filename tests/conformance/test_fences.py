"""Epochs: each is given out once, and what comes under an old one changes nothing."""

import asyncio
from typing import Any

import pytest

from conformance.conftest import Opener
from conformance.scene import Scene
from conformance.timetable import Timetable
from mainspring.core.planning import planned
from mainspring.domain.ids import PARTITIONS, partition_of
from mainspring.ports.coordination import Fence
from mainspring.ports.schedules import Committed, SchedulePlan, StoredSchedule

ALL = range(PARTITIONS)


class Rival:
    """A schedule, and two who believe in it: the first one is deposed."""

    def __init__(self, scene: Scene) -> None:
        self.store = scene.store
        self.timetable = Timetable(scene)
        self.stored: StoredSchedule

    async def meet(self, **options: Any) -> None:
        self.stored = await self.timetable.make(**options)
        self.old = Fence(await self.store.raise_epochs(ALL, "first"))
        self.new = Fence(await self.store.raise_epochs([self.partition], "second"))

    @property
    def partition(self) -> int:
        return partition_of(self.stored.id)

    async def plans(self) -> list[SchedulePlan]:
        due = await self.store.due_schedules(100)
        return [planned(one, due.now, self.timetable.ids) for one in due.schedules]


@pytest.fixture
def rival(scene: Scene) -> Rival:
    return Rival(scene)


async def test_epochs_rise_and_name_their_owner(scene: Scene) -> None:
    before = {state.partition: state.epoch for state in await scene.store.partition_states()}
    assert list(before) == list(ALL)
    first = await scene.store.raise_epochs(ALL, "first")
    second = await scene.store.raise_epochs({3, 4}, "second")
    assert first == {part: before[part] + 1 for part in ALL}
    assert second == {part: before[part] + 2 for part in (3, 4)}
    states = await scene.store.partition_states()
    assert [state.epoch for state in states] == [{**first, **second}[part] for part in ALL]
    assert [state.owner for state in states[2:6]] == ["first", "second", "second", "first"]


async def test_only_the_owner_gives_a_partition_up(scene: Scene) -> None:
    first = await scene.store.raise_epochs({3, 4}, "first")
    second = await scene.store.raise_epochs({4}, "second")
    await scene.store.give_up_epochs(first)
    states = await scene.store.partition_states()
    assert [(state.epoch, state.owner) for state in states[3:5]] == [
        (first[3], None),
        (second[4], "second"),
    ]


async def test_epochs_asked_for_at_once_are_different(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]
    answers = await asyncio.gather(*(store.raise_epochs({1, 2}, "x") for store in stores))
    for part in (1, 2):
        given = [answer[part] for answer in answers if part in answer]
        assert len(set(given)) == len(given) >= 1


async def test_a_plan_under_an_old_epoch_changes_nothing(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    scene.clock.advance(60.0)
    plans = await rival.plans()
    before = await rival.timetable.read()
    assert await rival.store.commit_plans(plans, rival.old) == [
        Committed(is_stored=False, is_stale=True)
    ]
    assert await rival.timetable.read() == before
    assert await rival.timetable.history() == []
    assert await scene.claim(10) == []
    (answer,) = await rival.store.commit_plans(plans, rival.new)
    assert (answer.is_stored, answer.is_stale, len(answer.started)) == (True, False, 1)


async def test_a_plan_for_somebody_elses_partition_is_refused(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    scene.clock.advance(60.0)
    other = (rival.partition + 1) % PARTITIONS
    fence = Fence({other: rival.old.epochs[other]})
    (answer,) = await rival.store.commit_plans(await rival.plans(), fence)
    assert answer == Committed(is_stored=False, is_stale=True)
    (answer,) = await rival.store.commit_plans(await rival.plans(), Fence({}))
    assert answer == Committed(is_stored=False, is_stale=True)


async def test_a_plan_that_is_out_of_date_is_not_called_stale(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    scene.clock.advance(60.0)
    plans = await rival.plans()
    await rival.store.commit_plans(plans, rival.new)
    assert await rival.store.commit_plans(plans, rival.new) == [Committed(is_stored=False)]


async def test_of_many_plans_only_the_stale_ones_are_refused(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    others = [await rival.timetable.make(f"s{number}") for number in range(20)]
    scene.clock.advance(60.0)
    plans = await rival.plans()
    answers = await rival.store.commit_plans(plans, rival.old)
    for plan, answer in zip(plans, answers, strict=True):
        is_stale = partition_of(plan.schedule.id) == rival.partition
        assert (answer.is_stored, answer.is_stale) == (not is_stale, is_stale)
    assert len(plans) == len(others) + 1


async def test_only_what_is_owned_is_due(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    made = [rival.stored, *[await rival.timetable.make(f"s{number}") for number in range(9)]]
    mine = Fence({rival.partition: 0})
    expected = {one.id for one in made if partition_of(one.id) == rival.partition}
    assert (await rival.store.due_schedules(100, mine)).next_seconds == 60.0
    assert (await rival.store.due_schedules(100, Fence({}))).next_seconds is None
    scene.clock.advance(60.0)
    due = await rival.store.due_schedules(100, mine)
    assert {one.id for one in due.schedules} == expected
    assert (await rival.store.due_schedules(100, Fence({}))).schedules == []
    assert len((await rival.store.due_schedules(100)).schedules) == len(made)


async def test_the_rest_of_what_a_planner_writes_is_refused_too(scene: Scene, rival: Rival) -> None:
    await rival.meet(start_deadline=20, overlap="allow")
    await rival.timetable.minute()
    before = await rival.timetable.read()
    await rival.store.report_problem(before, "broken", 5.0, rival.old)
    assert await rival.timetable.read() == before
    scene.clock.advance(21.0)
    assert await rival.store.expire_starts(10, rival.old) == []
    (expired,) = await rival.store.expire_starts(10, rival.new)
    assert expired.schedule == "report"
    await rival.store.report_problem(before, "broken", 5.0, rival.new)
    assert (await rival.timetable.read()).problem == "broken"


async def test_ends_are_found_and_noted_by_the_owner(scene: Scene, rival: Rival) -> None:
    await rival.meet()
    await rival.timetable.minute()
    (lease,) = await scene.claim()
    await scene.complete(lease)
    other = Fence({(rival.partition + 1) % PARTITIONS: 1})
    assert (await rival.store.ended_runs(10, None, other)).ended == []
    ended = (await rival.store.ended_runs(10, None, rival.old)).ended
    assert len(ended) == 1
    await rival.store.close_runs(ended, rival.old)
    assert (await rival.store.ended_runs(10)).ended == ended
    await rival.store.close_runs(ended, rival.new)
    assert (await rival.store.ended_runs(10)).ended == []
