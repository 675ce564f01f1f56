"""Schedules in virtual time: planners die at every point of a tick and work at the same time, the
network loses calls, and clocks are wrong. Every nominal time has to become a run exactly once, or
be recorded as skipped with its reason.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from mainspring.adapters.memory import plans
from mainspring.adapters.memory.plans import carry_out
from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.schedules import ScheduleTables, TickRow
from mainspring.adapters.memory.store import MemoryStore
from mainspring.core.planning import state_of
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.errors import OutcomeUnknown
from mainspring.domain.ids import make_id, random_bits_needed
from mainspring.domain.schedule import OverlapRule, ScheduleSpec, SkipReason
from mainspring.domain.task import Completed, Failed, Failure, FailureKind, Settlement
from mainspring.ports.hooks import HookPoint
from mainspring.ports.schedules import (
    Committed,
    SchedulePlan,
    StoredSchedule,
    Tick,
    TickOutcome,
)
from mainspring.ports.store import ClaimRequest
from mainspring.scheduler.planner import Planner
from schedule_judge import judge
from simulation.meddler import Meddler
from simulation.network import START, Connection, Process, StoreClock, Weather
from simulation.virtual_loop import run_virtual

SEEDS = int(os.environ.get("SIMULATION_SCHEDULE_SEEDS", "8"))
LOAD_SECONDS = 400.0
TICK_POINTS = (
    HookPoint.TICK_BEFORE_INSERT,
    HookPoint.TICK_AFTER_INSERT,
    HookPoint.TICK_AFTER_COMMIT,
)
BOOM = Failure(kind=FailureKind.ERROR, message="ValueError: no")


class Ids:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def task_id(self, key: str | None = None) -> Any:
        milliseconds = int(StoreClock().now().timestamp() * 1000)
        return make_id(milliseconds, self.chance.getrandbits(random_bits_needed()), key)

    def worker_id(self) -> str:
        return "w"


class DeadlyHooks:
    """Now and then kills the process that reaches a point of a tick."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.share = 0.0
        self.kills: Counter[HookPoint] = Counter()

    async def reach(self, point: HookPoint) -> None:
        if point not in TICK_POINTS or self.chance.random() >= self.share:
            return
        self.kills[point] += 1
        raise OutcomeUnknown(f"killed at {point}")


class NoWatcher:
    def answered(self, call: Any, answer: Any) -> None:
        """Nothing is watched: what is stored is judged at the end."""


class House:
    """Schedules, planners and a worker on one store."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hooks = DeadlyHooks(random.Random(self.chance.random()))
        self.store = MemoryStore(StoreClock(), hooks=self.hooks)
        self.weather = Weather(random.Random(self.chance.random()))
        self.ids = Ids(random.Random(self.chance.random()))
        self.schedules = Schedules(self.store, StoreClock(), self.ids)
        self.planners: list[Process] = []
        self.made: dict[str, datetime] = {}
        self.is_over = False
        self.load_seconds = LOAD_SECONDS
        self.running: set[asyncio.Task[None]] = set()
        self.meddler = Meddler(self.schedules, random.Random(self.chance.random()))

    def add_planner(self) -> None:
        process = Process("planner", random.Random(self.chance.random()))
        process.skew_seconds = self.chance.choice((0.0, -3600.0, 86400.0))
        store = Connection(self.store, process, self.weather, NoWatcher())
        planner = Planner(store, process, process, self.ids)  # type: ignore[arg-type]
        self.planners.append(process)
        process.start(planner.run())

    async def make_schedules(self) -> None:
        options: tuple[dict[str, Any], ...] = (
            {"cron": "* * * * *", "overlap": "allow"},
            {"cron": "*/2 * * * *", "overlap": "skip", "timezone": "Europe/Berlin"},
            {"every": 7, "overlap": "buffer_one"},
            {"every": 11, "overlap": "buffer_all", "overlap_limit": 4},
            {"every": 13, "overlap": "cancel_previous"},
            {"every": 1, "overlap": "allow", "misfire": "run_all", "misfire_limit": 20},
            {"every": 9, "overlap": "allow", "misfire": "skip", "jitter": 3},
            {"every": 17, "overlap": "allow", "start_deadline": 2, "misfire_tolerance": 1},
        )
        for number, one in enumerate(options):
            name = f"s{number}"
            await self.schedules.create(name, Change(task_type="mail", options=one))
            self.made[name] = StoreClock().now()

    async def work(self) -> None:
        """A worker that takes everything, slowly."""
        while not self.is_over:
            request = ClaimRequest(
                worker_id="w", limit=100, lease_seconds=1e6, task_types=("mail",)
            )
            for lease in (await self.store.claim(request)).leases:
                seconds = self.chance.choice((0.0, 0.5, 3.0, 25.0))
                self.running.add(
                    asyncio.create_task(self.finish(lease.id, lease.fencing_token, seconds))
                )
            await asyncio.sleep(0.2)

    async def finish(self, task_id: Any, token: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ending = Failed(BOOM) if self.chance.random() < 0.1 else Completed()
        await self.store.settle([Settlement(task_id, token, ending)])

    async def disturb(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.load_seconds
        self.hooks.share = 0.15
        while loop.time() < until:
            await asyncio.sleep(self.chance.uniform(1.0, 25.0))
            match self.chance.randrange(7):
                case 0 | 1:
                    self.planners.pop(self.chance.randrange(len(self.planners))).kill()
                    asyncio.get_running_loop().call_later(
                        self.chance.uniform(0.0, 90.0), self.add_planner
                    )
                    if not self.planners:
                        await asyncio.sleep(self.chance.uniform(0.0, 90.0))
                        self.add_planner()
                case 2:
                    self.chance.choice(self.planners).stop(self.chance.uniform(1.0, 60.0))
                case 3:
                    self.weather.is_down = True
                    await asyncio.sleep(self.chance.uniform(0.5, 40.0))
                    self.weather.is_down = False
                case 4:
                    self.weather.lost = self.weather.twice = 0.1
                    self.weather.late = 0.05
                case 5:
                    self.weather.lost = self.weather.twice = self.weather.late = 0.0
                case _:
                    for process in self.planners:
                        process.skew_seconds = self.chance.choice((0.0, -7200.0, 7200.0))
        self.hooks.share = 0.0
        self.weather.lost = self.weather.twice = self.weather.late = 0.0

    async def play(self) -> None:
        await self.make_schedules()
        await self.meddler.begin()
        for _ in range(2):
            self.add_planner()
        worker = asyncio.create_task(self.work())
        until = asyncio.get_running_loop().time() + self.load_seconds
        meddling = asyncio.create_task(self.meddler.work(until))
        await self.disturb()
        await meddling
        await asyncio.sleep(200.0)
        self.is_over = True
        for process in self.planners:
            process.kill()
        await worker
        await asyncio.sleep(40.0)


def runs_of(house: House, name: str) -> list[Row]:
    tables = house.store._tables
    rows = (*tables.live.values(), *tables.dead.values(), *tables.history.values())
    return [row for row in rows if row.tick is not None and row.tick.schedule == name]


def overlapping(spec: ScheduleSpec, runs: list[Row], ticks: list[Tick]) -> Iterator[str]:
    """What the overlap policy does not allow (I15): a run goes from its making to its end."""
    rule = spec.overlap.rule
    if rule is OverlapRule.ALLOW:
        skipped = [tick for tick in ticks if tick.reason == SkipReason.OVERLAP]
        yield from (f"I15: {tick.nominal_at} is skipped though all may run" for tick in skipped)
        return
    for before, after in pairwise(sorted(runs, key=lambda row: (row.created_at, row.id))):
        has_ended = before.completed_at is not None and before.completed_at <= after.created_at
        is_replaced = rule is OverlapRule.CANCEL_PREVIOUS and before.cancel_requested
        if not has_ended and not is_replaced:
            yield f"I15: a run was made at {after.created_at}, the one before had not ended"


async def violations(house: House) -> list[str]:
    found: list[str] = await house.meddler.violations()
    for name, made in house.made.items():
        stored = await house.store.get_schedule(name)
        assert stored is not None
        spec = state_of(stored).spec
        assert stored.next_nominal is not None
        ticks = await house.store.ticks(stored.id, 10_000)
        found += [f"{name}: {one}" for one in judge(spec, made, stored.next_nominal, ticks)]
        if stored.problem:
            found.append(f"{name}: {stored.problem}")
        rows = runs_of(house, name)
        found += [f"{name}: {one}" for one in overlapping(spec, rows, ticks)]
        runs = Counter(row.tick.nominal_at for row in rows if row.tick is not None)
        with_task = {tick.nominal_at for tick in ticks if tick.task_id is not None}
        found += [f"{name}: {at} made {count} tasks" for at, count in runs.items() if count > 1]
        found += [f"{name}: {at} has a task and no tick" for at in runs.keys() - with_task]
        found += [f"{name}: {at} has a tick and no task" for at in with_task - runs.keys()]
    return found


def found_in(number: int) -> list[str]:
    house = House(number)

    async def whole() -> list[str]:
        await house.play()
        return await violations(house)

    return run_virtual(whole())


@pytest.mark.parametrize("number", range(SEEDS))
def test_every_nominal_time_once_or_skipped_with_a_reason(seed: int, number: int) -> None:
    found = found_in(seed * 1000 + number)
    assert not found, f"seed {seed} number {number}: {len(found)}: {found[:5]}"


def plan_without_revision(patch: pytest.MonkeyPatch) -> None:
    """The key of the ticks is a second guard; what people change meanwhile has none."""
    save = ScheduleTables.save

    def broken(tables: ScheduleTables, schedule: StoredSchedule) -> bool:
        known = tables.schedules[schedule.id]
        return save(tables, msgspec.structs.replace(schedule, revision=known.revision))

    patch.setattr(ScheduleTables, "save", broken)


def plan_in_two_steps(patch: pytest.MonkeyPatch) -> None:
    """The ticks are stored, and the process dies before the schedule is."""

    def broken(tables: ScheduleTables, plan: SchedulePlan) -> Committed:
        if plan.ticks and plan.schedule.revision % 5 == 0:
            tables.save(msgspec.structs.replace(plan.schedule))
            return Committed(is_stored=True)
        return carry_out(tables, plan)

    patch.setattr(plans, "carry_out", broken)


def tick_without_a_key(patch: pytest.MonkeyPatch) -> None:
    plan_without_revision(patch)

    def broken(tables: ScheduleTables, schedule_id: Any, tick: Any, twin: Any = None) -> bool:
        rows = tables.ticks.setdefault(schedule_id, {})
        task_id = twin if tick.task is None else tick.task.id
        rows[tick.nominal_at] = TickRow(tick, tables.tables.now(), task_id=task_id)
        return True

    patch.setattr(plans, "store_tick", broken)


def plan_without_earlier_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScheduleTables, "live_runs", lambda *_: 0)


@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        (plan_in_two_steps, {"missed"}),
        (tick_without_a_key, {"made 2 tasks"}),
        (plan_without_revision, {"I16", "I17"}),
        (plan_without_earlier_runs, {"I15"}),
    ],
)
def test_a_guard_that_is_taken_away_is_missed(
    broken: Callable[[pytest.MonkeyPatch], None], shown: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    hidden = set(shown)
    for number in range(5):
        found = found_in(number)
        hidden = {one for one in hidden if not any(one in line for line in found)}
        if not hidden:
            return
    pytest.fail(f"nothing shows {hidden}")


def test_the_judge_sees_what_is_wrong() -> None:
    spec = ScheduleSpec(every=timedelta(seconds=60), anchor=START)
    good = [
        Tick(
            nominal_at=START + timedelta(seconds=60 * number),
            outcome=TickOutcome.TASK,
            kind="scheduled",  # type: ignore[arg-type]
            decided_at=START,
        )
        for number in (1, 2, 3)
    ]
    cursor = START + timedelta(seconds=240)
    assert judge(spec, START, cursor, good) == []
    assert "missed" in judge(spec, START, cursor, good[1:])[0]
    assert "2 ticks" in judge(spec, START, cursor, [*good, good[0]])[0]
    odd = msgspec.structs.replace(good[0], nominal_at=START + timedelta(seconds=61))
    assert judge(spec, START, cursor, [*good, odd])
    silent = msgspec.structs.replace(good[0], outcome=TickOutcome.SKIPPED)
    assert "no reason" in judge(spec, START, cursor, [silent, *good[1:]])[0]
