"""Unique keys of runs that others hold just now, and groups that another shard keeps."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.planning import planned
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.ids import key_tail
from mainspring.ports.schedules import SchedulePlan
from mainspring.ports.store import TaskFilter
from mainspring.scheduler.planner import Planner

pytestmark = pytest.mark.postgres

SUBMIT = "SELECT mainspring.submit_v2('mail', unique_key => $1)"


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(PoolOptions(dsn=database))
    yield opened
    await opened.close()


async def plan_all(store: PostgresStore, sql: asyncpg.Connection) -> list[SchedulePlan]:
    """Let every schedule be due, and plan it."""
    await sql.execute(
        "UPDATE mainspring.schedules SET next_nominal = next_nominal - interval '1 min', "
        "plan_at = plan_at - interval '1 min'"
    )
    due = await store.due_schedules(10)
    return [planned(one, due.now, SystemIds()) for one in due.schedules]


async def make(store: PostgresStore, name: str, **options: object) -> None:
    change = Change(task_type="mail", options={"every": 60, **options})
    await Schedules(store, SystemClock(), SystemIds()).create(name, change)


async def test_an_open_transaction_holds_up_nobody_else(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    for name in ("held", "free"):
        await make(store, name, unique_key=name)
    await make(store, "plain")
    # A queue that nobody used before would be in the way of all.
    await sql.execute(SUBMIT, "before")
    plans = await plan_all(store, sql)
    async with sql.transaction():
        held = await sql.fetchval(SUBMIT, "held")
        answers = await store.commit_plans(plans)
        stored = {
            plan.schedule.name: answer.is_stored
            for plan, answer in zip(plans, answers, strict=True)
        }
        assert stored == {"held": False, "free": True, "plain": True}
    due = await store.due_schedules(10)
    (answer,) = await store.commit_plans(
        [planned(one, due.now, SystemIds()) for one in due.schedules if one.name == "held"]
    )
    assert (answer.is_stored, answer.started, len(answer.met)) == (True, (), 1)
    (schedule,) = (one for one in due.schedules if one.name == "held")
    (tick,) = await store.ticks(schedule.id, 10)
    assert (tick.reason, tick.task_id) == ("unique", held)


async def test_of_many_at_once_one_is_made(store: PostgresStore, sql: asyncpg.Connection) -> None:
    """Planners and submissions race for a key; whoever loses says who has it."""
    for number in range(6):
        await make(store, f"s{number}", unique_key="one")
    plans = await plan_all(store, sql)
    async with asyncio.TaskGroup() as group:
        for part in (plans[:3], plans[3:]):
            group.create_task(store.commit_plans(part))
        for _ in range(4):
            group.create_task(sql_submit(store, "one"))
    while left := (await store.due_schedules(10)).schedules:
        now = await store.store_time()
        await store.commit_plans([planned(one, now, SystemIds()) for one in left])
    (task,) = (await store.page(TaskFilter(), 10)).tasks
    ticks = [await store.ticks(plan.schedule.id, 10) for plan in plans]
    assert {tick.task_id for (tick,) in ticks} == {task.task_id}


async def sql_submit(store: PostgresStore, key: str) -> None:
    connection = await asyncpg.connect(store._connections.options.dsn)
    try:
        await connection.fetchval(SUBMIT, key)
    finally:
        await connection.close()


async def test_a_group_that_another_shard_keeps_is_a_problem_that_is_shown(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    """As after a move of a schedule that was made before there were shards."""
    await make(store, "far", group_key="g")
    await make(store, "near", group_key="h")
    owners = [int(partition == key_tail("g") % 64) for partition in range(64)]
    await sql.execute(
        "INSERT INTO mainspring.shard_map (installation, version, shard, owners, shards) "
        "VALUES ($1, 1, 0, $2::smallint[], 2)",
        uuid4(),
        owners,
    )
    await plan_all(store, sql)
    planner = Planner(store, SystemClock(), SystemChance(), SystemIds())
    await planner.run_once()
    far, near = await store.list_schedules(10)
    assert "another shard keeps" in far.problem
    assert await store.ticks(far.id, 10) == []
    assert near.problem == ""
    assert len(await store.ticks(near.id, 10)) == 1
