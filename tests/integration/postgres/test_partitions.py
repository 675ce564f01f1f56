"""Epochs under concurrency, and coordination through a pooler in transaction mode."""

import asyncio

import asyncpg
import pytest

from mainspring.adapters.postgres.coordination import PostgresCoordination
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.planning import planned
from mainspring.core.schedules import Change, Schedules
from mainspring.domain.ids import PARTITIONS, partition_of
from mainspring.ports.coordination import Fence
from mainspring.ports.hooks import HookPoint
from mainspring.ports.schedules import SchedulePlan
from mainspring.scheduler.ownership import Ownership
from mainspring.scheduler.planner import Planner

pytestmark = pytest.mark.postgres

ALL = range(PARTITIONS)


class Slow:
    """Stands still between a statement and its commit until it is told to go on."""

    def __init__(self) -> None:
        self.is_there = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def reach(self, point: HookPoint) -> None:
        if point is HookPoint.TICK_AFTER_INSERT:
            self.is_there.set()
            await self.goes_on.wait()


async def due_plan(store: PostgresStore) -> SchedulePlan:
    """A schedule that is due, and what is to be done about it."""
    schedules = Schedules(store, SystemClock(), SystemIds())
    await schedules.create("s", Change(task_type="mail", options={"every": 60}))
    connection = await asyncpg.connect(store._connections.options.dsn, statement_cache_size=0)
    await connection.execute(
        "UPDATE mainspring.schedules SET next_nominal = next_nominal - interval '1 min', "
        "plan_at = plan_at - interval '1 min'"
    )
    await connection.close()
    due = await store.due_schedules(10)
    return planned(due.schedules[0], due.now, SystemIds())


async def test_the_partition_of_an_id_is_the_same_in_sql(
    database: str, sql: asyncpg.Connection
) -> None:
    ids = [SystemIds().task_id(f"key {number}") for number in range(200)]
    rows = await sql.fetch(
        "SELECT mainspring.partition_of(id) AS at FROM unnest($1::uuid[]) id", ids
    )
    assert [row["at"] for row in rows] == [partition_of(one) for one in ids]


async def test_a_plan_that_stands_still_delays_its_own_partition_alone(database: str) -> None:
    hooks = Slow()
    store = PostgresStore(PoolOptions(dsn=database), hooks=hooks)
    try:
        plan = await due_plan(store)
        partition = partition_of(plan.schedule.id)
        fence = Fence(await store.raise_epochs(ALL, "first"))
        storing = asyncio.create_task(store.commit_plans([plan], fence))
        await hooks.is_there.wait()
        raised = await store.raise_epochs(ALL, "second")
        assert raised.keys() == set(ALL) - {partition}
        hooks.goes_on.set()
        (answer,) = await storing
        assert answer.is_stored
        assert (await store.raise_epochs([partition], "second")).keys() == {partition}
    finally:
        await store.close()


async def test_a_plan_that_waited_for_an_epoch_is_refused(
    database: str, sql: asyncpg.Connection
) -> None:
    store = PostgresStore(PoolOptions(dsn=database))
    try:
        plan = await due_plan(store)
        fence = Fence(await store.raise_epochs(ALL, "first"))
        async with sql.transaction():
            await sql.execute("UPDATE mainspring.partitions SET epoch = epoch + 1")
            storing = asyncio.create_task(store.commit_plans([plan], fence))
            done, _ = await asyncio.wait({storing}, timeout=0.2)
            assert not done
        (answer,) = await storing
        assert (answer.is_stored, answer.is_stale) == (False, True)
        assert await store.ticks(plan.schedule.id, 10) == []
    finally:
        await store.close()


async def test_a_scheduler_behind_a_pooler_and_with_its_rights(
    database: str, pgbouncer: str
) -> None:
    options = PoolOptions(dsn=pgbouncer, pooled=True, size=2)
    store = PostgresStore(options)
    coordination = PostgresCoordination(options, SystemClock())
    ownership = Ownership(
        coordination, store, SystemClock(), SystemChance(), member="m", ttl_seconds=2.0
    )
    planner = Planner(store, SystemClock(), SystemChance(), SystemIds(), ownership=ownership)
    try:
        plan = await due_plan(store)
        assert await planner.run_once() == 0
        assert await ownership.run_once() == PARTITIONS
        assert await planner.run_once() >= 1
        assert await store.ticks(plan.schedule.id, 10)
        session = await coordination.join("n", 2.0)
        await ownership.run_once()
        assert len(ownership.fence().epochs) == PARTITIONS // 2
        await session.leave()
    finally:
        await coordination.close()
        await store.close()
