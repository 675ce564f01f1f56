"""An installation on two databases: who may use them, and where things are."""

import asyncio
import dataclasses
import json

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from integration.shards.conftest import Two
from mainspring import Mainspring
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.cli.root import run
from mainspring.config import Settings
from mainspring.core.access import Principal
from mainspring.core.schedules import Change, Schedules
from mainspring.core.tenant_schedules import TenantSchedules
from mainspring.domain.errors import (
    InvalidConfiguration,
    InvalidValue,
    MigrationNeeded,
    ScheduleExists,
)
from mainspring.domain.ids import key_tail, partition_of
from mainspring.domain.task import LeaseRef, Origin
from mainspring.ports.access import AuditFilter, AuditRecord
from mainspring.ports.store import TaskFilter
from mainspring.scheduler.planner import Planner
from mainspring.wiring.checkup import findings
from mainspring.wiring.store import migrate, migration_plan, open_session, open_store
from mainspring.wiring.transactions import caller_transactions

pytestmark = pytest.mark.postgres

MINE = Origin(actor="me", namespace="paged", action="task.submit")


def with_url(two: Two, url: str) -> Settings:
    return dataclasses.replace(two.settings, database_url=url)


async def test_a_wrong_list_of_databases_is_refused(
    two: Two, database: str, empty_database: str
) -> None:
    first, second = (reach.dsn for reach in two.reaches)
    refusals = {
        f"{second},{first}": "number 1 of the databases in database_url is shard 2",
        second: "that is shard 2 of 2; name all of them",
        f"{first},{database}": "number 2 of the databases in database_url is no shard yet",
        f"{first},{second},{database}": "names 3 databases",
        f"{first},{empty_database}": "has no Mainspring schema",
    }
    for url, message in refusals.items():
        with pytest.raises((InvalidConfiguration, MigrationNeeded), match=message):
            await (await open_store(with_url(two, url))).close()
    await (await open_store(two.settings)).close()


async def test_migrating_makes_shards_of_empty_databases_alone(
    two: Two, database: str, postgres_server: PostgresServer
) -> None:
    assert await migrate(two.settings) == []
    assert await migration_plan(two.settings) == []
    name = await postgres_server.create_database(migrated=False)
    fresh = postgres_server.dsn(name)
    store = await open_store(with_url(two, database))
    await store.submit([two.task(0)])
    await store.close()
    with pytest.raises(InvalidConfiguration, match=r"number 1 .* holds tasks or schedules"):
        await migrate(with_url(two, f"{database},{fresh}"))
    with pytest.raises(InvalidConfiguration, match="names 3 databases"):
        await migrate(with_url(two, f"{two.settings.database_url},{fresh}"))
    await postgres_server.drop_database(name)


async def test_tasks_and_schedules_are_where_their_ids_say(two: Two) -> None:
    session = await open_session(two.settings)
    store = session.store
    tasks = [two.task(number % 2, delay_seconds=60.0) for number in range(10)]
    answers = await session.submissions.submit_many(tasks, first=True)
    assert [answer.id for answer in answers] == [task.id for task in tasks]
    for number, part in enumerate(store.parts()):
        listed = {task.task_id for task in (await part.page(TaskFilter(), 100)).tasks}
        assert listed == {task.id for task in tasks if store.shard_of(task.id) == number}
    listed_ids = [task.task_id async for task in session.lifecycle.scan(TaskFilter(), 7)]
    assert listed_ids == sorted((task.id for task in tasks), reverse=True)[:7]
    for number in range(8):
        await session.schedules.create(
            f"s{number}", Change(task_type="t", options={"every": 3600.0, "timezone": "UTC"})
        )
    with pytest.raises(ScheduleExists):
        await session.schedules.create("s0", Change(task_type="other", options={"every": 7200.0}))
    assert [one.name for one in await session.schedules.all()] == [f"s{n}" for n in range(8)]
    counts = [len(await part.list_schedules(100)) for part in store.parts()]
    assert sum(counts) == 8
    assert all(counts)
    for number in range(8):
        await session.schedules.trigger(f"s{number}")
    for part in store.parts():
        made = [task for task in (await part.page(TaskFilter(), 100)).tasks if task.schedule]
        for task in made:
            assert await part.get_schedule(str(task.schedule)) is not None
            assert partition_of(task.task_id) == key_tail(str(task.schedule)) % 64
    await session.close()


async def test_planners_plan_in_each_shard(two: Two) -> None:
    session = await open_session(two.settings)
    clock, chance, ids = SystemClock(), SystemChance(), SystemIds()
    await session.schedules.create(
        "soon", Change(task_type="t", options={"every": 1.0, "timezone": "UTC"})
    )
    planners = [Planner(part, clock, chance, ids) for part in session.store.parts()]
    async with asyncio.timeout(10):
        while not await session.schedules.history("soon"):
            for planner in planners:
                await planner.run_once()
            await clock.sleep(0.05)
    assert await session.store.last_round() is not None
    await session.close()


async def test_sql_makes_ids_in_the_shard_and_refuses_foreign_keys(two: Two) -> None:
    store = await open_store(two.settings)
    for number, reach in enumerate(two.reaches):
        connection = await asyncpg.connect(reach.direct_dsn)
        for _ in range(20):
            made = await connection.fetchval("SELECT mainspring.submit('t')")
            assert store.shard_of(made) == number
        for key in "abcdef":
            statement = f"SELECT mainspring.submit('t', key => '{key}')"
            if key_tail(key) % 64 // 32 == number:
                assert store.shard_of(await connection.fetchval(statement)) == number
            else:
                with pytest.raises(
                    asyncpg.InvalidParameterValueError, match="which another shard keeps"
                ):
                    await connection.execute(statement)
                with pytest.raises(asyncpg.InvalidParameterValueError, match=f"the key '{key}'"):
                    await connection.execute(
                        f"SELECT mainspring.submit_v2('t', group_key => '{key}', unique_key => 'u')"
                    )
        await connection.close()
    assert len((await store.page(TaskFilter(), 100)).tasks) == 46
    await store.close()


async def test_a_transaction_writes_into_the_shard_of_its_connection(
    two: Two, database: str
) -> None:
    app = Mainspring(two.settings)
    session = await app.sessions.current()
    foreign = next(key for key in "abcdefgh" if key_tail(key) % 64 < 32)
    connection = await asyncpg.connect(two.reaches[1].direct_dsn)
    for commits in (True, False):
        transaction = connection.transaction()
        await transaction.start()
        made = [await app.submit("t", {"n": n}, connection=connection) for n in range(5)]
        assert {session.store.shard_of(task.id) for task in made} == {1}
        with pytest.raises(InvalidValue, match="is not in the shard of this connection"):
            await app.submit("t", connection=connection, key=foreign)
        with pytest.raises(InvalidValue, match=f"group_key '{foreign}' belongs to partition"):
            await app.submit("t", connection=connection, group_key=foreign, unique_key="u")
        await (transaction.commit() if commits else transaction.rollback())
        found = await session.store.statuses([task.id for task in made])
        assert len(found) == (5 if commits else 0)
    transactions = caller_transactions(lambda: two.settings)
    with pytest.raises(InvalidValue, match="give a connection to the shard that has it"):
        await transactions.complete(connection, LeaseRef(two.id_in(0), 1), None)
    assert not await transactions.complete(connection, LeaseRef(two.id_in(1), 1), None)
    await connection.close()
    elsewhere = await asyncpg.connect(database)
    with pytest.raises(InvalidValue, match="none of the shards"):
        await app.submit("t", connection=elsewhere)
    await elsewhere.close()
    await app.close()


async def test_the_audit_is_paged_over_both(two: Two) -> None:
    store = await open_store(two.settings)
    for number in range(12):
        await store.submit([two.task(number % 3 % 2, origin=MINE)])
        if number % 4 == 0:
            record = AuditRecord(
                actor="me",
                namespace="paged",
                action="queue.pause",
                subject=str(number),
                address="",
                request_id="",
            )
            await store.record([record])
    whole = await store.audit(100, AuditFilter(namespace="paged"))
    assert len(whole) == 15
    assert [at for at, _ in whole] == sorted((at for at, _ in whole), reverse=True)
    ids = []
    before = None
    while page := await store.audit(4, AuditFilter(namespace="paged", before=before)):
        ids += [record.id for _, record in page]
        before = page[-1][1].id
    assert ids == [record.id for _, record in whole]
    await store.close()


async def test_commands_go_over_all_shards(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    url = two.settings.database_url
    assert await asyncio.to_thread(run, ["shards", "list", "--json", "--database-url", url]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["partitions"] for row in rows] == [[*range(32)], [*range(32, 64)]]
    assert {row["state"] for row in rows} == {"answers"}
    found = [finding async for finding in findings(two.settings)]
    checks = {finding.check: finding for finding in found}
    assert {"shard 1: database", "shard 2: schema", "shards", "workers"} <= checks.keys()
    assert checks["shards"].ok
    await two.reaches[1].lose()
    await asyncio.to_thread(run, ["shards", "list", "--database-url", url])
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert "answers" in first
    assert "0-31" in first
    assert "does not answer" in second
    assert await asyncio.to_thread(run, ["queues", "list", "--database-url", url]) == 0
    assert "shard 2 (" in capsys.readouterr().err
    found = [finding async for finding in findings(two.settings)]
    assert not next(finding for finding in found if finding.check == "shards").ok


async def test_a_schedule_is_made_where_its_group_is(two: Two) -> None:
    session = await open_session(two.settings)
    try:
        change = Change(task_type="t", options={"every": 60, "group_key": "acme"})
        with pytest.raises(InvalidValue, match="name the schedule") as refused:
            await session.schedules.create("report", change)
        assert refused.value.field == "group_key"
        name = str(refused.value).split("name the schedule '")[1].split("'")[0]
        await session.schedules.create(name, change)
        run = await session.schedules.trigger(name)
        assert run.task_id is not None
        assert partition_of(run.task_id) == key_tail("acme") % 64
        other = Change(task_type="t", options={"every": 60, "unique_key": "acme"})
        with pytest.raises(InvalidValue, match="unique_key out"):
            await session.schedules.create("report", other)
    finally:
        await session.close()


async def test_schedules_of_a_namespace_are_found_again(two: Two) -> None:
    session = await open_session(two.settings)
    who = Principal(key_id="k", name="me", namespace="acme")
    try:
        use = Schedules(TenantSchedules(session.store, who), SystemClock(), SystemIds())
        for number in range(8):
            name = f"s{number}"
            await use.create(name, Change(task_type="t", options={"every": 60}))
            assert (await use.pause(name)).status == "paused"
            assert (await use.trigger(name)).task_id is not None
            await use.delete(name)
    finally:
        await session.close()
