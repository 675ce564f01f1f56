"""Planners on PostgreSQL: two at once, and both die at every point of a tick."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.planning import state_of
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.errors import OutcomeUnknown
from mainspring.ports.hooks import HookPoint
from mainspring.scheduler.planner import Planner
from schedule_judge import judge

pytestmark = pytest.mark.postgres

START = datetime(2026, 5, 12, 15, 0, tzinfo=UTC)
POINTS = (
    HookPoint.TICK_BEFORE_INSERT,
    HookPoint.TICK_AFTER_INSERT,
    HookPoint.TICK_AFTER_COMMIT,
)
KILLS = 40
SCHEDULES = 30


class Deadly:
    """Breaks off what reaches a point of a tick, by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kills: Counter[HookPoint] = Counter()

    async def reach(self, point: HookPoint) -> None:
        if point in POINTS and self.kills.total() < KILLS and self.chance.random() < 0.3:
            self.kills[point] += 1
            raise OutcomeUnknown(f"killed at {point}")


async def make_schedules(store: PostgresStore, made: dict[str, datetime]) -> None:
    schedules = Schedules(store, SystemClock(), SystemIds())
    for number in range(SCHEDULES):
        options = {"every": 1 + number % 10, "overlap": "allow", "misfire": "run_all"}
        view = await schedules.create(f"s{number}", Change(task_type="mail", options=options))
        assert view.created_at is not None
        made[f"s{number}"] = view.created_at


async def violations(
    store: PostgresStore, made: dict[str, datetime], sql: asyncpg.Connection
) -> list[str]:
    found: list[str] = []
    for name, created in made.items():
        stored = await store.get_schedule(name)
        assert stored is not None
        assert stored.next_nominal is not None
        ticks = await store.ticks(stored.id, 100_000)
        spec = state_of(stored).spec
        found += [f"{name}: {one}" for one in judge(spec, created, stored.next_nominal, ticks)]
        rows = await sql.fetch(
            "SELECT id, nominal_at FROM mainspring.tasks WHERE schedule = $1", name
        )
        tasks = {(row["id"], row["nominal_at"]) for row in rows}
        made_tasks = {(one.task_id, one.nominal_at) for one in ticks if one.task_id is not None}
        found += [f"{name}: {one} differs" for one in tasks ^ made_tasks]
    return found


async def run_through(planner: Planner) -> None:
    try:
        await planner.run_once()
    except OutcomeUnknown:
        # As after a restart: nothing is remembered.
        planner.next_seconds = None


async def test_40_kills_at_the_points_of_a_tick_and_no_tick_missed_or_doubled(
    database: str, sql: asyncpg.Connection, rng: random.Random
) -> None:
    moment = [START]
    made: dict[str, datetime] = {}
    hooks = Deadly(rng)
    quiet = PostgresStore(PoolOptions(dsn=database), now=lambda: moment[0])
    stores = [
        PostgresStore(PoolOptions(dsn=database, size=4), hooks=hooks, now=lambda: moment[0])
        for _ in range(2)
    ]
    try:
        await make_schedules(quiet, made)
        planners = [Planner(store, SystemClock(), SystemChance(), SystemIds()) for store in stores]
        rounds = 0
        while hooks.kills.total() < KILLS:
            rounds += 1
            moment[0] += timedelta(seconds=rng.choice((0.3, 1.0, 2.5)))
            await asyncio.gather(*(run_through(planner) for planner in planners))
        await Planner(quiet, SystemClock(), SystemChance(), SystemIds()).run_once()
        assert set(hooks.kills) == set(POINTS), hooks.kills
        found = await violations(quiet, made, sql)
        assert not found, (rounds, hooks.kills, found[:5])
    finally:
        for store in (*stores, quiet):
            await store.close()


def start_scheduler(database: str, directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "mainspring", "scheduler", "--database-url", database],
        cwd=directory,
        env={**os.environ, "MAINSPRING_SCHEDULER_TTL_SECONDS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def until_ready(process: "subprocess.Popen[bytes]") -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if b"ready" in line:
            return
    pytest.fail("the scheduler ended before it was ready")


def end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        process.kill()
        process.communicate()


@pytest.mark.fault
async def test_real_schedulers_that_are_killed_and_stopped(
    database: str, sql: asyncpg.Connection, rng: random.Random, tmp_path: Path
) -> None:
    made: dict[str, datetime] = {}
    store = PostgresStore(PoolOptions(dsn=database))
    running: list[subprocess.Popen[bytes]] = []
    try:
        running = [start_scheduler(database, tmp_path) for _ in range(2)]
        for process in running:
            await asyncio.to_thread(until_ready, process)
        newest = running[-1]
        await make_schedules(store, made)
        for number in range(12):
            await asyncio.to_thread(time.sleep, rng.uniform(0.2, 1.2))
            victim = running.pop(rng.randrange(len(running)))
            if number % 4 == 3:
                victim.send_signal(signal.SIGSTOP)
                await asyncio.to_thread(time.sleep, 1.5)
                victim.send_signal(signal.SIGCONT)
                running.append(victim)
            else:
                end(victim)
                newest = start_scheduler(database, tmp_path)
                running.append(newest)
        await asyncio.to_thread(until_ready, newest)
        await asyncio.to_thread(time.sleep, 2.0)
        for process in running:
            end(process)
        found = await violations(store, made, sql)
        assert not found, found[:5]
        latest = await sql.fetchval("SELECT max(nominal_at) FROM mainspring.ticks")
        now = await sql.fetchval("SELECT clock_timestamp()")
        assert now - latest < timedelta(seconds=9)
    finally:
        for process in running:
            end(process)
        await store.close()


async def test_a_refused_value_of_one_schedule_does_not_stop_the_others(
    database: str, sql: asyncpg.Connection
) -> None:
    moment = [START]
    store = PostgresStore(PoolOptions(dsn=database), now=lambda: moment[0])
    try:
        schedules = Schedules(store, SystemClock(), SystemIds())
        for name in ("a", "bad", "z"):
            options: dict[str, Any] = {"cron": "* * * * *"}
            await schedules.create(name, Change(task_type="mail", options=options))
        await sql.execute("UPDATE mainspring.schedules SET queue = 'a b' WHERE name = 'bad'")
        moment[0] += timedelta(minutes=1)
        await Planner(store, SystemClock(), SystemChance(), SystemIds()).run_once()
        rows = await sql.fetch("SELECT schedule FROM mainspring.tasks ORDER BY schedule")
        assert [row["schedule"] for row in rows] == ["a", "z"]
        bad = await store.get_schedule("bad")
        assert bad is not None
        assert "queue" in bad.problem
    finally:
        await store.close()


async def test_many_schedules_due_at_once_take_few_statements(database: str) -> None:
    moment = [START]
    store = PostgresStore(PoolOptions(dsn=database), now=lambda: moment[0])
    try:
        schedules = Schedules(store, SystemClock(), SystemIds())
        view = await schedules.create("s", Change(task_type="mail", options={"every": 60}))
        assert view.created_at is not None
        stored = await store.get_schedule("s")
        assert stored is not None
        ids = SystemIds()
        for number in range(700):
            copy = msgspec.structs.replace(stored, id=ids.task_id(), name=f"s{number}")
            assert await store.create_schedule(copy)
        moment[0] += timedelta(minutes=1)
        due = await store.due_schedules(1000)
        assert len(due.schedules) == 701
        planner = Planner(store, SystemClock(), SystemChance(), ids)
        assert await planner.run_once() == 701
        assert await planner.run_once() == 0
    finally:
        await store.close()
