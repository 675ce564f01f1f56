"""Shards are added, one installation is divided, and processes with an old map are put right."""

import asyncio
import dataclasses
import json
from pathlib import Path

import asyncpg
import msgspec
import pytest

from fixtures.postgres import PostgresServer
from integration.shards.movers import Stopping, Stops, Waiting, mover_of
from mainspring import Mainspring
from mainspring.adapters.postgres.moving.end import End
from mainspring.adapters.postgres.moving.mover import Mover, Tools
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.cli.root import run
from mainspring.config import Settings
from mainspring.core.schedules import Change
from mainspring.domain.errors import (
    Conflict,
    InvalidConfiguration,
    MainspringError,
    PartitionMoving,
    StoreUnavailable,
)
from mainspring.domain.ids import key_tail, moved_into
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.shards import even_map
from mainspring.domain.task import Completed, LeaseRef, NewTask, Settlement
from mainspring.ports.hooks import HookPoint, NoHooks
from mainspring.ports.store import ClaimRequest, TaskFilter
from mainspring.wiring.moving import add_shards, removals
from mainspring.wiring.store import migrate, open_session, open_store

pytestmark = pytest.mark.postgres

REQUEST = ClaimRequest(worker_id="w", limit=50, lease_seconds=60.0, task_types=("t",))
KEY = next(key for key in map(str, range(500)) if key_tail(key) % 64 == 5)


def settings_of(dsns: list[str], folder: Path) -> Settings:
    return dataclasses.replace(Settings(), database_url=",".join(dsns), data_dir=folder)


def task_in(partition: int, **fields: object) -> NewTask:
    return NewTask(id=moved_into(SystemIds().task_id(), [partition]), task_type="t", **fields)  # type: ignore[arg-type]


async def test_one_installation_is_divided(
    dsns: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, both = settings_of(dsns[:1], tmp_path), settings_of(dsns, tmp_path)
    session = await open_session(alone)
    tasks = [task_in(partition, delay_seconds=60.0) for partition in range(64)]
    await session.store.submit(tasks)
    keyed = [
        NewTask(id=SystemIds().task_id(key), task_type="t", key=key, fingerprint="f")
        for key in map(str, range(20))
    ]
    await session.store.submit(keyed)
    for number in range(8):
        change = Change(task_type="t", options={"every": 3600.0, "timezone": "UTC"})
        await session.schedules.create(f"s{number}", change)
    await session.close()
    with pytest.raises(InvalidConfiguration, match="shards add"):
        await migrate(both)
    for _ in range(2):
        labels = await add_shards(both)
        assert [len(label.map.partitions_of(label.shard)) for label in labels] == [64, 0]
    with pytest.raises(InvalidConfiguration, match="shard 1 of 2; name all of them"):
        await open_store(alone)
    url = both.database_url
    assert await asyncio.to_thread(run, ["shards", "plan", "--json", "--database-url", url]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan == {"partitions": [*range(32, 64)], "from": 1, "to": 2}
    command = ["shards", "move", "32-63", "--to", "2", "--database-url", url]
    assert await asyncio.to_thread(run, [*command, "--dry-run", "--json"]) == 0
    *rows, expected = map(json.loads, capsys.readouterr().out.splitlines())
    assert {row["table"] for row in rows} >= {"tasks", "task_history", "idempotency", "ticks"}
    assert sum(row["rows"] for row in rows if row["table"] == "tasks") >= 32
    assert expected["expected_refused_seconds"] > 0
    assert await asyncio.to_thread(run, [*command, "--freeze-seconds", "60"]) == 0
    session = await open_session(both)
    listed = {task.task_id for task in (await session.store.page(TaskFilter(), 200)).tasks}
    assert listed == {task.id for task in (*tasks, *keyed)}
    counts = [len((await part.page(TaskFilter(), 200)).tasks) for part in session.store.parts()]
    assert sum(counts) == 84
    assert min(counts) >= 32
    assert [one.name for one in await session.schedules.all()] == [f"s{n}" for n in range(8)]
    for one in keyed:
        (answer,) = await session.store.submit(
            [msgspec.structs.replace(one, id=SystemIds().task_id(one.key))]
        )
        assert answer.id == one.id
    await session.close()
    assert await asyncio.to_thread(run, ["shards", "plan", "--database-url", url]) == 0
    assert "nothing to move" in capsys.readouterr().err


async def test_limits_are_divided_anew_also_by_who_died_in_between(
    dsns: list[str], tmp_path: Path
) -> None:
    alone, both = settings_of(dsns[:1], tmp_path), settings_of(dsns, tmp_path)
    session = await open_session(alone)
    limit, group, own = Limit(concurrency=5, rate=3.0, burst=4), Limit(rate=2.0), Limit(rate=1.0)
    await session.store.set_limits("low", whole=Limit(concurrency=1))
    await session.store.set_limits("q", whole=limit, group=group)
    await session.store.set_group_limit("q", "acme", own)
    await session.store.pause("q")
    too_low = (
        "the limit of the queue low is too low for so many shards: concurrency is 1; .* least 2"
    )
    with pytest.raises(InvalidConfiguration, match=too_low):
        await add_shards(both)
    await session.store.set_limits("low", whole=Limit())
    await session.close()
    # It ends after the old shard has its share, and before the new one has.
    await execute(dsns[1], "ALTER TABLE mainspring.queues ADD CHECK (concurrency IS NULL)")
    with pytest.raises(MainspringError):
        await add_shards(both)
    assert await limited(dsns[0]) == [("q", 3)]
    assert await limited(dsns[1]) == []
    await execute(dsns[1], "ALTER TABLE mainspring.queues DROP CONSTRAINT queues_concurrency_check")
    for _ in range(2):
        await add_shards(both)
    session = await open_session(both)
    limits = QueueLimits(queue=limit, group=group, groups={"acme": own})
    assert await session.store.limits("q") == limits
    assert [(await part.limits("q")).queue for part in session.store.parts()] == [
        Limit(concurrency=3, rate=1.5, burst=2),
        Limit(concurrency=2, rate=1.5, burst=2),
    ]
    for part in session.store.parts():
        assert [one.paused for one in await part.queues() if one.queue == "q"] == [True]
    await session.close()


async def test_a_process_with_an_old_map_is_put_right_by_its_first_question(
    dsns: list[str], tmp_path: Path
) -> None:
    settings = settings_of(dsns, tmp_path)
    await migrate(settings)
    parts = [PostgresStore(PoolOptions(dsn=dsn)) for dsn in dsns]

    def stale() -> ShardedStore:
        """A process that has not looked since the beginning."""
        clock = SystemClock()
        shards = [
            Shard(number, f"shard {number + 1}", part, clock, label=part.label)
            for number, part in enumerate(parts)
        ]
        return ShardedStore(shards, even_map(2))

    waiting, running = task_in(5, delay_seconds=60.0), task_in(5)
    await stale().submit([waiting, running])
    (lease,) = (await stale().claim(REQUEST)).leases
    ref = LeaseRef(lease.id, lease.fencing_token)
    await mover_of(settings).move((5,), 1)
    assert await stale().get(waiting.id) is not None
    assert set(await stale().statuses([waiting.id, running.id])) == {waiting.id, running.id}
    (renewal,) = await stale().heartbeat([ref], 60.0)
    assert renewal.held
    assert await stale().progress(ref, "1")
    assert await stale().settle([Settlement(ref.id, ref.fencing_token, Completed(None))]) == [True]
    assert await stale().settle([Settlement(ref.id, ref.fencing_token, Completed(None))]) == [False]
    new = task_in(5)
    assert [answer.id for answer in await stale().submit([new])] == [new.id]
    assert await stale().get(SystemIds().task_id()) is None
    listed = {task.task_id for task in (await stale().page(TaskFilter(), 10)).tasks}
    assert listed == {waiting.id, running.id, new.id}
    assert {task.task_id for task in (await parts[1].page(TaskFilter(), 10)).tasks} == listed
    connection = await asyncpg.connect(dsns[0])
    with pytest.raises(asyncpg.PostgresError, match="which another shard keeps"):
        await connection.execute("SELECT mainspring.submit('t', key => $1)", KEY)
    await connection.close()
    for part in parts:
        await part.close()


async def test_while_partitions_are_refused_the_others_go_on(
    dsns: list[str], tmp_path: Path
) -> None:
    settings = settings_of(dsns, tmp_path)
    await migrate(settings)
    app = Mainspring(settings)
    connection = await asyncpg.connect(dsns[0])
    await app.submit("t", connection=connection)
    old = await open_store(settings)
    frozen, free = [task_in(5) for _ in range(60)], [task_in(6) for _ in range(3)]
    await old.submit([*frozen, *free])
    # As a mover leaves it that was killed while it copied the last rows.
    with pytest.raises(Stops):
        await mover_of(settings, Stopping(HookPoint.MOVE_AFTER_FREEZE)).move((5,), 1)
    with pytest.raises(InvalidConfiguration, match="partitions are just moving"):
        await add_shards(settings)
    store = await open_store(settings)
    await store.settled([], 0)
    assert 5 in store.lost_partitions()
    claimed = {lease.id for lease in (await store.claim(REQUEST)).leases}
    assert claimed >= {task.id for task in free}
    assert not claimed & {task.id for task in frozen}
    with pytest.raises(PartitionMoving):
        await store.cancel([frozen[0].id])
    # What the connection was known to lead to is asked again after it refused something.
    with pytest.raises(asyncpg.PostgresError, match="moves to another shard"):
        await app.submit("t", connection=connection, key=KEY)
    made = [await app.submit("t", connection=connection) for _ in range(5)]
    assert all(store.shard_of(handle.id) == 0 for handle in made)
    assert await store.get(frozen[0].id) is not None
    await mover_of(settings).cancel()
    assert await store.rescue(10) == []
    await store.settled([], 0)
    claimed = {lease.id for lease in (await store.claim(REQUEST)).leases}
    assert len(claimed & {task.id for task in frozen}) >= 40
    assert store.lost_partitions() == frozenset()
    assert len(await old.statuses([task.id for task in frozen])) == 60
    await connection.close()
    for one in (store, old):
        await one.close()
    await app.close()


async def test_a_process_that_does_not_know_the_new_shard_says_so(
    dsns: list[str], tmp_path: Path, postgres_server: PostgresServer
) -> None:
    settings = settings_of(dsns, tmp_path)
    await migrate(settings)
    store = await open_store(settings)
    kept, moved = task_in(5), task_in(6)
    await store.submit([kept, moved])
    await store.set_limits("q", whole=Limit(concurrency=7))
    name = await postgres_server.create_database(migrated=True)
    longer = settings_of([*dsns, postgres_server.dsn(name)], tmp_path)
    assert [label.shard for label in await add_shards(longer)] == [0, 1, 2]
    await mover_of(longer).move((6,), 2)
    assert await store.get(kept.id) is not None
    with pytest.raises(StoreUnavailable, match="moved to shard 3, and the database_url"):
        await store.get(moved.id)
    assert 6 in store.lost_partitions()
    with pytest.raises(StoreUnavailable, match="has 3 shards now"):
        await store.set_limits("q", whole=Limit(concurrency=9))
    with pytest.raises(InvalidConfiguration, match="installation of 3 shards"):
        await open_store(settings)
    await store.close()
    wide = await open_store(longer)
    assert await wide.get(moved.id) is not None
    shares = [(await part.limits("q")).queue.concurrency for part in wide.parts()]
    assert shares == [3, 2, 2]
    await wide.close()
    await postgres_server.drop_database(name)


async def test_shards_and_moves_behind_pgbouncer(
    dsns: list[str], bare_names: list[str], pgbouncer: str, tmp_path: Path
) -> None:
    way = pgbouncer.rpartition("/")[0]
    settings = dataclasses.replace(
        settings_of([f"{way}/{name}" for name in bare_names], tmp_path),
        database_direct_url=",".join(dsns),
    )
    await migrate(settings)
    store = await open_store(settings)
    tasks = [task_in(partition) for partition in (5, 5, 6, 40)]
    await store.submit(tasks)
    leases = (await store.claim(REQUEST)).leases
    await mover_of(settings).move((5,), 1)
    ended = [Settlement(lease.id, lease.fencing_token, Completed(None)) for lease in leases]
    assert await store.settle(ended) == [True] * 4
    assert {task.task_id for task in (await store.page(TaskFilter(), 9)).tasks} == {
        task.id for task in tasks
    }
    await store.close()


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


async def limited(dsn: str) -> list[tuple[str, int]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [
            tuple(row)
            for row in await connection.fetch(
                "SELECT name, concurrency FROM mainspring.queues WHERE limited"
            )
        ]
    finally:
        await connection.close()


async def refused(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetchval("SELECT moving FROM mainspring.shard_map"))
    finally:
        await connection.close()


async def test_a_mover_that_stood_still_changes_nothing_more(
    dsns: list[str], tmp_path: Path
) -> None:
    settings = settings_of(dsns, tmp_path)
    await migrate(settings)
    store = await open_store(settings)
    task = task_in(5)
    await store.submit([task])
    waiting = Waiting(HookPoint.MOVE_AFTER_FREEZE)
    first = asyncio.create_task(mover_of(settings, waiting).move((5,), 1))
    await waiting.reached.wait()
    with pytest.raises(Conflict, match="another process moves partitions"):
        await mover_of(settings).resume()
    # Its lock is gone with a connection to the first shard, and another one takes the move back.
    ends = [End(number, dsn) for number, dsn in enumerate(dsns)]
    for end in ends:
        await end.open()
    stored = await ends[0].stored()
    assert stored is not None
    tools = Tools(SystemClock(), NoHooks(), print, 15.0)
    await Mover(ends, stored, even_map(2), SystemIds().task_id(), tools).cancel()
    waiting.goes.set()
    with pytest.raises(Conflict, match="has taken this move over"):
        await first
    for end in ends:
        assert await end.stored() is None
        assert (await end.label()).map.version == 1
        await end.close()
    assert (await store.claim(REQUEST)).leases[0].id == task.id
    await store.close()


async def test_a_move_that_is_broken_off_refuses_nothing_any_more(
    dsns: list[str], tmp_path: Path
) -> None:
    settings = settings_of(dsns, tmp_path)
    await migrate(settings)
    store = await open_store(settings)
    await store.submit([task_in(5) for _ in range(50)])
    with pytest.raises(StoreUnavailable, match=r"not copied within 0\.001 s"):
        await removals(settings, print, freeze_seconds=0.001).move((5,), 1)
    assert await refused(dsns[0]) == []
    waiting = Waiting(HookPoint.MOVE_BEFORE_SWITCH)
    interrupted = asyncio.create_task(mover_of(settings, waiting).resume())
    await waiting.reached.wait()
    assert await refused(dsns[0]) == [5]
    interrupted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await interrupted
    assert await refused(dsns[0]) == []
    assert len((await store.claim(REQUEST)).leases) == 50
    await mover_of(settings).resume()
    assert len((await store.parts()[1].page(TaskFilter(), 100)).tasks) == 50
    await store.close()
