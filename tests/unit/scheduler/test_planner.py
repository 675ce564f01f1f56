"""The planner at work on a store in memory, with time moved by hand."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainspring.adapters.memory.store import MemoryStore
from mainspring.core.planning import state_of
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import Change, OnConflict, Schedules
from mainspring.domain.errors import (
    InvalidValue,
    RunSkipped,
    ScheduleExists,
    ScheduleNotFound,
    StoreUnavailable,
)
from mainspring.domain.ids import make_id, random_bits_needed
from mainspring.domain.schedule import ScheduleStatus
from mainspring.domain.task import Completed, Failed, Failure, FailureKind, Lease, Settlement
from mainspring.ports.schedules import Committed, Tick, TickOutcome
from mainspring.ports.store import ClaimRequest
from mainspring.scheduler.planner import MissedRuns, Planner
from manual_clock import ManualClock

START = datetime(2026, 5, 12, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BOOM = Failure(kind=FailureKind.ERROR, message="ValueError: no")


class Ids:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.random = random.Random(3)

    def task_id(self, key: str | None = None) -> Any:
        milliseconds = int(self.clock.now().timestamp() * 1000)
        return make_id(milliseconds, self.random.getrandbits(random_bits_needed()), key)

    def worker_id(self) -> str:
        return "w"


class Chance:
    def random(self) -> float:
        return 0.0


class House:
    """A store, people's hands on it, and a planner."""

    def __init__(self, store: type[MemoryStore] = MemoryStore) -> None:
        self.clock = ManualClock(START)
        self.store = store(self.clock)
        self.ids = Ids(self.clock)
        self.schedules = Schedules(self.store, self.clock, self.ids)
        self.missed: list[MissedRuns] = []
        self.planner = self.new_planner()

    def new_planner(self) -> Planner:
        return Planner(self.store, self.clock, Chance(), self.ids, alert=self.missed.append)

    async def make(self, name: str = "report", **options: Any) -> Schedule:
        given = {"cron": "* * * * *"} if not {"every", "at", "cron"} & options.keys() else {}
        change = Change(task_type="mail", options={**given, **options})
        return await self.schedules.create(name, change)

    async def pass_time(self, minutes: float = 1) -> int:
        self.clock.advance(60.0 * minutes)
        return await self.planner.run_once()

    async def claim(self) -> list[Lease]:
        request = ClaimRequest(worker_id="w", limit=100, lease_seconds=6e5, task_types=("mail",))
        return (await self.store.claim(request)).leases

    async def finish(self, *, well: bool = True) -> int:
        """Run all tasks that are due."""
        leases = await self.claim()
        ending = Completed() if well else Failed(BOOM)
        await self.store.settle([Settlement(one.id, one.fencing_token, ending) for one in leases])
        return len(leases)

    async def history(self, name: str = "report") -> list[Tick]:
        return await self.schedules.history(name, 1000)


async def test_every_minute_runs_once() -> None:
    house = House()
    await house.make()
    for _ in range(5):
        assert await house.pass_time() == 1
        assert await house.finish() == 1
    ticks = await house.history()
    assert [tick.nominal_at for tick in ticks] == [START + n * MINUTE for n in (5, 4, 3, 2, 1)]
    assert (await house.schedules.get("report")).runs == 5
    assert house.missed == []


async def test_after_102_minutes_one_late_run_and_then_every_minute() -> None:
    house = House()
    await house.make()
    await house.pass_time(102)
    assert await house.finish() == 1
    await house.pass_time()
    assert await house.finish() == 1
    view = await house.schedules.get("report")
    assert (view.runs, view.missed, view.skipped) == (2, 101, {"coalesced": 101})
    (missed,) = house.missed
    assert (missed.reason, missed.count) == ("coalesced", 101)
    assert (missed.first_at, missed.last_at) == (START + MINUTE, START + 101 * MINUTE)


async def test_a_run_that_is_caught_up_late_is_counted_and_told() -> None:
    house = House()
    await house.make(cron="5 9 * * *")
    await house.pass_time(10)
    assert (await house.schedules.get("report")).late == 1
    assert [(one.reason, one.lateness_seconds) for one in house.missed] == [("late", 300.0)]


async def test_a_second_late_is_no_misfire() -> None:
    house = House()
    await house.make(misfire="skip")
    house.clock.advance(1.2)
    await house.pass_time()
    (tick,) = await house.history()
    assert (tick.outcome, tick.lateness_seconds) == (TickOutcome.TASK, 1.2)
    assert (await house.schedules.get("report")).late == 0


async def test_an_alert_that_fails_does_not_stop_the_planner() -> None:
    house = House()

    def alert(missed: MissedRuns) -> None:
        raise RuntimeError(missed.schedule)

    house.planner = Planner(house.store, house.clock, Chance(), house.ids, alert=alert)
    await house.make()
    assert await house.pass_time(10) == 1
    assert await house.finish() == 1


async def test_an_edit_that_leaves_the_times_alone_loses_no_due_time() -> None:
    house = House()
    await house.make(cron="0 * * * *")
    house.clock.advance(3600.0 + 3)
    change = Change(task_type="letter", options={"cron": "0 * * * *", "priority": 1})
    view = await house.schedules.update("report", change)
    assert (view.task_type, view.version) == ("letter", 1)
    await house.planner.run_once()
    (tick,) = await house.history()
    assert (tick.outcome, tick.nominal_at) == (TickOutcome.TASK, START + 60 * MINUTE)


async def test_an_edit_of_the_times_never_fires_one_that_has_passed() -> None:
    house = House()
    await house.make(cron="0 9 * * *")
    house.clock.advance(3600.0)
    view = await house.schedules.update("report", Change(options={"cron": "10 9 * * *"}))
    assert (view.version, view.next_at) == (2, START + timedelta(days=1, minutes=10))
    assert await house.planner.run_once() == 0


async def test_a_cursor_that_was_moved_behind_our_back_is_put_right() -> None:
    house = House()
    await house.make(cron="0 10 * * MON-FRI")
    stored = await house.store.get_schedule("report")
    assert stored is not None
    saturday = datetime(2026, 5, 16, 10, 0, tzinfo=UTC)
    await house.store.replace_schedule(
        msgspec.structs.replace(stored, next_nominal=saturday, plan_at=saturday)
    )
    house.clock.advance((saturday - START).total_seconds())
    await house.planner.run_once()
    (tick,) = await house.history()
    assert (tick.outcome, tick.reason) == (TickOutcome.SKIPPED, "stale_time")
    view = await house.schedules.get("report")
    assert view.next_at == datetime(2026, 5, 18, 10, 0, tzinfo=UTC)


async def test_a_run_by_hand_moves_neither_times_nor_anchor() -> None:
    house = House()
    view = await house.make(every=86400.0)
    house.clock.advance(37_800.0)
    tick = await house.schedules.trigger("report")
    assert tick.kind == "manual"
    (lease,) = await house.claim()
    assert (lease.id, lease.tick and lease.tick.schedule) == (tick.task_id, "report")
    assert (await house.schedules.get("report")).next_at == view.next_at
    assert (await house.schedules.get("report")).runs == 0


async def test_a_run_by_hand_respects_the_overlap_policy() -> None:
    house = House()
    await house.make()
    await house.schedules.trigger("report")
    with pytest.raises(RunSkipped, match="1 unfinished runs"):
        await house.schedules.trigger("report")
    await house.schedules.trigger("report", overlap="allow")
    with pytest.raises(InvalidValue, match="overlap is 'maybe'"):
        await house.schedules.trigger("report", overlap="maybe")


async def test_a_run_by_hand_at_a_time_of_the_timetable_does_not_take_its_place() -> None:
    house = House()
    await house.make(overlap="allow")
    house.clock.advance(60.0)
    await house.schedules.trigger("report")
    await house.planner.run_once()
    kinds = sorted((tick.kind.value, tick.nominal_at) for tick in await house.history())
    assert kinds == [
        ("manual", START + MINUTE + timedelta(microseconds=1)),
        ("scheduled", START + MINUTE),
    ]


@pytest.mark.parametrize(("catch_up", "runs"), [(False, 0), (True, 1)])
async def test_what_becomes_of_the_times_of_a_pause(catch_up: bool, runs: int) -> None:
    house = House()
    await house.make()
    assert (await house.schedules.pause("report", "holiday")).note == "holiday"
    assert await house.pass_time(30) == 0
    await house.schedules.resume("report", catch_up=catch_up)
    await house.planner.run_once()
    assert len(await house.claim()) == runs
    await house.pass_time()
    assert (await house.schedules.get("report")).status is ScheduleStatus.ACTIVE


async def test_failures_in_a_row_pause_a_schedule_and_say_so() -> None:
    house = House()
    await house.make(pause_after_failures=3)
    for well in (False, False, True, False, False):
        await house.pass_time()
        await house.finish(well=well)
    await house.planner.run_once()
    assert (await house.schedules.get("report")).consecutive_failures == 2
    await house.pass_time()
    await house.finish(well=False)
    await house.pass_time()
    view = await house.schedules.get("report")
    assert (view.status, view.note) == (
        ScheduleStatus.PAUSED,
        "Paused after 3 failed runs in a row.",
    )
    made = view.runs
    await house.pass_time(5)
    assert (await house.schedules.get("report")).runs == made
    assert (await house.schedules.resume("report")).consecutive_failures == 0


async def test_waiting_times_run_one_after_the_other() -> None:
    house = House()
    await house.make(overlap="buffer_all")
    await house.pass_time()
    (first,) = await house.claim()
    for _ in range(3):
        await house.pass_time()
    assert (await house.schedules.get("report")).waiting == tuple(
        START + n * MINUTE for n in (2, 3, 4)
    )
    await house.store.settle([Settlement(first.id, first.fencing_token, Completed())])
    order = []
    for _ in range(3):
        await house.planner.run_once()
        (lease,) = await house.claim()
        assert lease.tick is not None
        order.append(lease.tick.nominal_at)
        await house.store.settle([Settlement(lease.id, lease.fencing_token, Completed())])
    assert order == [START + n * MINUTE for n in (2, 3, 4)]


async def test_a_run_that_does_not_start_in_time_is_dropped_and_told() -> None:
    house = House()
    await house.make(start_deadline=10.0)
    await house.pass_time()
    house.clock.advance(11.0)
    await house.planner.run_once()
    assert await house.claim() == []
    view = await house.schedules.get("report")
    assert (view.missed, view.skipped) == (1, {"start_deadline": 1})
    assert [one.reason for one in house.missed] == ["start_deadline"]


async def test_one_bad_schedule_does_not_stop_the_others() -> None:
    house = House()
    for name in ("a", "bad", "z"):
        await house.make(name)
    bad = await house.store.get_schedule("bad")
    assert bad is not None
    await house.store.replace_schedule(
        msgspec.structs.replace(bad, spec='{"cron": ["61 * * * *"]}')
    )
    await house.pass_time()
    assert len(await house.claim()) == 2
    view = await house.schedules.get("bad")
    assert "61" in view.problem
    assert view.kind == "unreadable"
    assert [one.name for one in await house.schedules.all()] == ["a", "bad", "z"]
    stored = await house.store.get_schedule("bad")
    assert stored is not None
    assert stored.plan_at == house.clock.now() + timedelta(seconds=5)
    await house.pass_time()
    again = await house.store.get_schedule("bad")
    assert again is not None
    assert (again.problem_count, again.plan_at) == (2, house.clock.now() + timedelta(seconds=10))


class Picky(MemoryStore):
    """Refuses a plan of one schedule, as a database may refuse a value."""

    async def commit_plans(self, plans: Any, fence: Any = None) -> list[Committed]:
        if any(plan.schedule.name == "bad" for plan in plans):
            raise InvalidValue("the task store refuses a value")
        return await super().commit_plans(plans, fence)


async def test_a_plan_that_the_store_refuses_does_not_stop_the_others() -> None:
    house = House(Picky)
    for name in ("a", "bad", "z"):
        await house.make(name)
    await house.pass_time()
    assert len(await house.claim()) == 2
    assert "refuses a value" in (await house.schedules.get("bad")).problem


async def test_new_zone_data_move_future_times_and_no_others() -> None:
    house = House()
    await house.make("later", cron="0 12 * * *", timezone="Europe/Berlin")
    await house.make("utc", cron="0 12 * * *")
    stored = await house.store.get_schedule("later")
    assert stored is not None
    right = stored.next_nominal
    assert right is not None
    wrong = right + timedelta(hours=1)
    old = msgspec.structs.replace(
        stored, zone_print="2025-2027:old", next_nominal=wrong, plan_at=wrong
    )
    await house.store.replace_schedule(old)
    await house.new_planner().run_once()
    again = await house.store.get_schedule("later")
    assert again is not None
    assert (again.next_nominal, again.plan_at) == (right, right)
    assert again.zone_print == stored.zone_print
    assert state_of(again).spec.timezone == "Europe/Berlin"


async def test_create_says_what_becomes_of_the_one_before() -> None:
    house = House()
    made = await house.make()
    same = Change(task_type="mail", options={"cron": "*  * * * *"})
    assert (await house.schedules.create("report", same)).version == made.version
    other = Change(task_type="mail", options={"cron": "5 * * * *"})
    with pytest.raises(ScheduleExists):
        await house.schedules.create("report", other)
    kept = await house.schedules.create("report", other, OnConflict.KEEP)
    assert kept.cron_expression == "* * * * *"
    new = await house.schedules.create("report", other, OnConflict.REPLACE)
    assert (new.cron_expression, new.version) == ("5 * * * *", 2)


async def test_an_update_keeps_what_it_does_not_mention() -> None:
    house = House()
    await house.schedules.create(
        "report",
        Change(
            task_type="mail",
            payload={"to": "ada"},
            options={
                "every": 60,
                "jitter": 5,
                "overlap": "buffer_all",
                "overlap_limit": 7,
                "end_at": "2030-01-01T00:00:00Z",
                "priority": 2,
                "timeout": 9,
            },
        ),
    )
    view = await house.schedules.update("report", Change(options={"misfire_limit": 5}))
    assert view.payload == {"to": "ada"}
    assert (view.priority, view.timeout, view.version) == (2, 9.0, 1)
    assert view.spec["overlap"] == {"rule": "buffer_all", "limit": 7}
    assert view.spec["misfire"]["limit"] == 5
    cleared = await house.schedules.update("report", Change(clear=("end_at", "overlap_limit")))
    assert (cleared.spec["end_at"], cleared.spec["overlap"]["limit"]) == (None, None)
    cron = await house.schedules.update("report", Change(options={"cron": "0 9 * * *"}))
    assert (cron.kind, cron.spec["every_seconds"]) == ("cron", None)


async def test_a_backfill_is_tried_dry_first() -> None:
    house = House()
    await house.make(cron="0 * * * *")
    span = (START - timedelta(hours=3), START)
    dry = await house.schedules.backfill("report", *span, dry_run=True)
    assert [run.nominal for run in dry.runs] == [START - timedelta(hours=n) for n in (3, 2, 1)]
    assert dry.started == ()
    done = await house.schedules.backfill("report", *span)
    assert done.started == tuple(run.nominal for run in dry.runs)
    assert (await house.schedules.backfill("report", *span)).started == ()
    leases = await house.claim()
    assert {lease.tick.previous_nominal_at for lease in leases if lease.tick} == {
        START - timedelta(hours=n) for n in (4, 3, 2)
    }


async def test_what_does_not_exist_is_said() -> None:
    house = House()
    for work in (
        house.schedules.get("x"),
        house.schedules.pause("x"),
        house.schedules.delete("x"),
        house.schedules.trigger("x"),
        house.schedules.history("x"),
    ):
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'x'"):
            await work


class Contended(MemoryStore):
    """Somebody else changes the schedule a few times just before it is stored."""

    left = 3

    async def _interfere(self, name: str) -> None:
        if self.left:
            self.left -= 1
            stored = await self.get_schedule(name)
            assert stored is not None
            await super().replace_schedule(msgspec.structs.replace(stored, runs=stored.runs + 1))

    async def replace_schedule(self, schedule: Any) -> bool:
        await self._interfere(schedule.name)
        return await super().replace_schedule(schedule)

    async def commit_plans(self, plans: Any, fence: Any = None) -> list[Committed]:
        for plan in plans:
            await self._interfere(plan.schedule.name)
        return await super().commit_plans(plans, fence)


@pytest.mark.parametrize(
    "change",
    [
        lambda use: use.pause("report"),
        lambda use: use.trigger("report"),
        lambda use: use.update("report", Change(options={"cron": "5 * * * *"})),
    ],
)
async def test_a_change_is_computed_again_when_somebody_was_faster(
    change: Callable[[Schedules], Any],
) -> None:
    house = House(Contended)
    await house.make()
    waiting = asyncio.ensure_future(change(house.schedules))
    for _ in range(3):
        await house.clock.sleeping()
        house.clock.advance(1.0)
    await waiting
    assert (await house.schedules.get("report")).runs == 3


async def test_the_planner_wakes_exactly_at_the_next_time() -> None:
    house = House()
    await house.make()
    running = asyncio.create_task(house.planner.run())
    while not await house.history():
        await house.clock.sleeping()
        house.clock.advance(0.25)
    (tick,) = await house.history()
    assert tick.lateness_seconds == 0.0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Flaky(MemoryStore):
    """Down for the first few calls."""

    left = 3

    async def due_schedules(self, limit: int, fence: Any = None) -> Any:
        if self.left:
            self.left -= 1
            raise StoreUnavailable("down")
        return await super().due_schedules(limit, fence)


async def test_an_outage_is_survived() -> None:
    house = House(Flaky)
    await house.make()
    running = asyncio.create_task(house.planner.run())
    while not await house.history():
        await house.clock.sleeping()
        house.clock.advance(0.5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_rounds_are_noted_now_and_then() -> None:
    house = House()
    await house.pass_time(0)
    assert await house.store.last_round() == START
    await house.pass_time(1 / 60)
    assert await house.store.last_round() == START
    await house.pass_time(5 / 60)
    assert await house.store.last_round() == START + timedelta(seconds=6)
