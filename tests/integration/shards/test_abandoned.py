"""A mover dies or stands still while partitions are refused, and nobody is at the keyboard."""

import asyncio
import dataclasses
import logging
import os
import signal
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from integration.shards.conftest import reach_of
from integration.shards.movers import (
    FREEZE_SECONDS,
    MOVED,
    PROMISED_SECONDS,
    TAKEN_OVER,
    Movers,
    Stopping,
    Stops,
    Waiting,
    check_settled,
    mover_of,
)
from integration.shards.traffic import CLOCK, Traffic
from mainspring.adapters.postgres.migrate import grant_services
from mainspring.adapters.postgres.moving.end import TakenOver
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemChance
from mainspring.cli.root import run
from mainspring.config import Settings
from mainspring.domain.errors import StoreUnavailable
from mainspring.ports.hooks import HookPoint, Hooks
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.move_watch import MoveWatch
from mainspring.wiring.checkup import findings
from mainspring.wiring.moving import move_state, move_watch, removals
from mainspring.wiring.shards import open_shards

pytestmark = pytest.mark.postgres

Fresh = tuple[Settings, list[str]]


WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock' AND query LIKE '%mainspring.moves%'"
)
"""How many connections wait for somebody else's record of a move."""


def watch_of(settings: Settings, store: ShardedStore, hooks: Hooks | None = None) -> MoveWatch:
    return move_watch(settings, store, Loop(CLOCK, SystemChance()), hooks)


@pytest.fixture
async def store(fresh: Fresh) -> AsyncIterator[ShardedStore]:
    store = await open_shards(fresh[0])
    yield store
    await store.close()


@pytest.fixture
async def two_schedulers(fresh: Fresh, store: ShardedStore) -> AsyncIterator[None]:
    """They look after moves all the time."""
    running = [asyncio.create_task(watch_of(fresh[0], store).run()) for _ in range(2)]
    yield
    assert not any(one.done() for one in running)
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def execute(dsn: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


async def time_passes(dsn: str) -> None:
    """Whoever refuses partitions of a shard has done so for longer than it meant to."""
    await execute(
        dsn,
        "UPDATE mainspring.shard_map SET refused_since = refused_since - interval '70 s', "
        "refused_until = refused_until - interval '70 s'",
    )


async def refused(dsn: str) -> list[int]:
    ((moving,),) = await execute(dsn, "SELECT moving FROM mainspring.shard_map")
    return list(moving)


async def let_go(dsn: str, within: float = PROMISED_SECONDS) -> None:
    """Wait until nothing is refused."""
    began = CLOCK.monotonic()
    async with asyncio.timeout(within):
        while await refused(dsn):
            await CLOCK.sleep(0.05)
    print(f"let go after {CLOCK.monotonic() - began:.1f} s")


async def left(settings: Settings, point: HookPoint, target: int = 1) -> None:
    """Leave a move as a mover does that dies at a point."""
    with pytest.raises(Stops):
        await mover_of(settings, Stopping(point)).move(MOVED, target)


@pytest.mark.fault
async def test_a_killed_mover_is_relieved_under_load(
    fresh: Fresh, movers: Movers, traffic: Traffic, two_schedulers: None
) -> None:
    settings, dsns = fresh
    for point in (HookPoint.MOVE_AFTER_FREEZE, HookPoint.MOVE_BEFORE_SWITCH):
        await movers.killed_at(point, 1)
        # Its lock is gone, so nobody waits for the time that it said.
        await let_go(dsns[0], FREEZE_SECONDS / 2)
        state = await move_state(settings)
        assert state is not None
        assert (state.is_decided, state.refused_seconds) == (False, None)
    await mover_of(settings).resume()
    await check_settled(dsns, 1)
    await movers.killed_at(HookPoint.MOVE_AFTER_SWITCH, 0)
    async with asyncio.timeout(PROMISED_SECONDS):
        while await move_state(settings) is not None:
            await CLOCK.sleep(0.05)
    await check_settled(dsns, 0)
    await traffic.stop()
    await traffic.drained()
    await traffic.check(dsns)
    assert traffic.refused == []


@pytest.mark.fault
async def test_a_stopped_mover_changes_nothing_when_it_goes_on(
    fresh: Fresh, movers: Movers, traffic: Traffic, two_schedulers: None
) -> None:
    settings, dsns = fresh
    # Both have a guard from now on, so the last step of a move takes locks in its target.
    for target in (1, 0):
        await mover_of(settings).move(MOVED, target)
    for point in (HookPoint.MOVE_AFTER_FREEZE, HookPoint.MOVE_BEFORE_SWITCH):
        process = await movers.stopped_at(point, 1)
        await time_passes(dsns[0])
        await let_go(dsns[0])
        os.kill(process, signal.SIGCONT)
        assert await movers.ended() == TAKEN_OVER
        assert await refused(dsns[0]) == []
    # What is decided refuses nothing, so it is left to who is at it.
    process = await movers.stopped_at(HookPoint.MOVE_AFTER_SWITCH, 1)
    await time_passes(dsns[0])
    assert await watch_of(settings, await traffic_store(traffic)).run_once() == 0
    os.kill(process, signal.SIGCONT)
    assert await movers.ended() == 0
    await check_settled(dsns, 1)
    await traffic.stop()
    await traffic.drained()
    await traffic.check(dsns)
    assert traffic.refused == []


async def traffic_store(traffic: Traffic) -> ShardedStore:
    assert isinstance(traffic.store, ShardedStore)
    await traffic.store.settled([], 0)
    return traffic.store


async def test_a_mover_is_left_alone_for_as_long_as_it_said(
    fresh: Fresh,
    store: ShardedStore,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings, dsns = fresh
    watch = watch_of(settings, store)
    assert await watch.run_once() == 0
    waiting = Waiting(HookPoint.MOVE_AFTER_FREEZE)
    slow = removals(settings, print, hooks=waiting, freeze_seconds=12.0)
    move = asyncio.create_task(slow.move(MOVED, 1))
    await waiting.reached.wait()
    await store.settled([], 0)
    assert await watch.run_once() == 0
    assert await refused(dsns[0]) == [*MOVED]
    ((bound,),) = await execute(
        dsns[0],
        "SELECT extract(epoch FROM refused_until - refused_since)::float8 "
        "FROM mainspring.shard_map",
    )
    assert bound == pytest.approx(12.0, abs=0.5)
    assert "have been refused for" in await said_of_shards(settings, ok=False)
    await time_passes(dsns[0])
    with caplog.at_level(logging.WARNING, logger="mainspring.scheduler"):
        assert await watch.run_once() == 1
    (record,) = caplog.records
    assert "16-31 to shard 2 was left by its process, and they were refused for 7" in record.message
    waiting.goes.set()
    with pytest.raises(TakenOver, match="a scheduler has let go"):
        await move
    assert await refused(dsns[0]) == []
    await store.settled([], 0)
    assert await watch.run_once() == 0
    words = "nobody is at it; run `mainspring shards move --resume`"
    assert words in await said_of_shards(settings, ok=False)
    listing = ["shards", "list", "--database-url", settings.database_url]
    assert await asyncio.to_thread(run, listing) == 0
    assert words in capsys.readouterr().err
    await mover_of(settings).cancel()
    assert "under one map" in await said_of_shards(settings, ok=True)


async def said_of_shards(settings: Settings, *, ok: bool) -> str:
    (found,) = [one async for one in findings(settings) if one.check == "shards"]
    assert found.ok is ok
    return found.detail


async def test_schedulers_meet_and_die_over_a_move(fresh: Fresh, store: ShardedStore) -> None:
    settings, dsns = fresh
    await left(settings, HookPoint.MOVE_AFTER_FREEZE)
    await store.settled([], 0)
    # One dies when it has taken the move over, another one when it has half of it.
    with pytest.raises(Stops):
        await watch_of(settings, store, Stopping(HookPoint.MOVE_AFTER_RECORD)).run_once()
    await execute(dsns[1], "UPDATE mainspring.moves SET runner = gen_random_uuid()")
    assert await refused(dsns[0]) == [*MOVED]
    # Two come at once, past the lock. One waits for the record in the source, and the other one for
    # that one, or it has found its name gone.
    await time_passes(dsns[0])
    source, target, record = [await asyncpg.connect(dsn) for dsn in (*dsns, dsns[0])]
    await source.execute("SELECT pg_advisory_lock(1835101546)")
    async with record.transaction():
        await record.execute("SELECT FROM mainspring.moves FOR UPDATE")
        both = [asyncio.create_task(watch_of(settings, store).run_once()) for _ in range(2)]
        async with asyncio.timeout(PROMISED_SECONDS):
            while not await source.fetchval(WAITS) or not (
                any(one.done() for one in both) or await target.fetchval(WAITS)
            ):
                await CLOCK.sleep(0.02)
    assert sum(await asyncio.gather(*both)) >= 1
    for connection in (source, target, record):
        await connection.close()
    assert await refused(dsns[0]) == []
    runners = {
        row["runner"]
        for dsn in dsns
        for row in await execute(dsn, "SELECT runner FROM mainspring.moves")
    }
    assert len(runners) == 1
    await mover_of(settings).resume()
    await check_settled(dsns, 1)


@pytest.mark.parametrize("point", [HookPoint.MOVE_AFTER_FREEZE, HookPoint.MOVE_AFTER_RELEASE])
async def test_the_role_of_the_services_is_enough(
    fresh: Fresh, store: ShardedStore, point: HookPoint
) -> None:
    settings, dsns = fresh
    role = f"services-{uuid4().hex[:8]}"
    await execute(dsns[0], f'CREATE ROLE "{role}" LOGIN')
    try:
        for dsn in dsns:
            await grant_services(dsn, role)
        parts = [urlsplit(dsn) for dsn in dsns]
        urls = [
            urlunsplit(part._replace(netloc=part.netloc.replace("mainspring@", f"{role}@")))
            for part in parts
        ]
        services = dataclasses.replace(settings, database_url=",".join(urls))
        await left(settings, point)
        await store.settled([], 0)
        assert await watch_of(services, store).run_once() == 1
        assert await refused(dsns[0]) == []
    finally:
        for dsn in dsns:
            await execute(dsn, f'DROP OWNED BY "{role}"')
        await execute(dsns[0], f'DROP ROLE "{role}"')
    if point is HookPoint.MOVE_AFTER_FREEZE:
        await mover_of(settings).cancel()
    await check_settled(dsns, 0 if point is HookPoint.MOVE_AFTER_FREEZE else 1)


async def test_while_the_target_is_away_nobody_can_know(
    fresh: Fresh, store: ShardedStore, bare_names: list[str], postgres_server: PostgresServer
) -> None:
    settings, dsns = fresh
    reach = await reach_of(postgres_server, bare_names[1])
    behind = dataclasses.replace(settings, database_url=f"{dsns[0]},{reach.dsn}")
    await left(settings, HookPoint.MOVE_AFTER_FREEZE)
    await store.settled([], 0)
    watch = watch_of(behind, store)
    await reach.lose()
    with pytest.raises(StoreUnavailable):
        await watch.run_once()
    assert await refused(dsns[0]) == [*MOVED]
    await reach.find()
    assert await watch.run_once() == 1
    assert await refused(dsns[0]) == []
    await reach.close()
