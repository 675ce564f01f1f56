"""Partitions move from one shard to another under load: nothing is lost, nothing is there twice."""

import asyncio

import asyncpg
import pytest

from integration.shards.movers import (
    FREEZE_SECONDS,
    MOVED,
    PROMISED_SECONDS,
    Movers,
    check_settled,
)
from integration.shards.traffic import CLOCK, Traffic
from mainspring.adapters.system import SystemIds
from mainspring.config import Settings
from mainspring.core.routed_commits import commits_on
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.ids import key_tail
from mainspring.domain.task import NewTask
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.moving import removals
from mainspring.wiring.store import open_session

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

WAITING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock' AND pid <> ALL ($1)"
)
"""Connections that wait for a lock."""

POINTS = [point for point in HookPoint if point.value.startswith("move.")]


async def test_moves_under_load_whoever_dies(
    fresh: tuple[Settings, list[str]], movers: Movers, traffic: Traffic
) -> None:
    settings, dsns = fresh
    said: list[str] = []
    mover = removals(settings, said.append, freeze_seconds=FREEZE_SECONDS)
    await CLOCK.sleep(1.2)
    seconds = await mover.move(MOVED, 1)
    print(f"refused for {seconds:.2f} s; {said}")
    await check_settled(dsns, 1)
    # Each goes on where the one before it died, and dies a little later.
    for target, points in ((0, POINTS[::2]), (1, POINTS[1::2])):
        for point in points:
            async with asyncio.timeout(PROMISED_SECONDS):
                await movers.killed_at(point, target)
            print(f"killed at {point}")
        with pytest.raises(Conflict, match="a move is under way, of the partitions 16-31 to shard"):
            await mover.move((1, 2), 1)
        print(f"refused for {await mover.resume():.2f} s")
        await check_settled(dsns, target)
    with pytest.raises(NotFound):
        await mover.resume()
    await traffic.stop()
    await traffic.drained()
    await traffic.check(dsns)
    print(f"{len(traffic.accepted)} tasks")
    assert traffic.refused == []


async def test_a_submission_of_unknown_outcome_waits_for_the_move_as_well(
    fresh: tuple[Settings, list[str]],
) -> None:
    settings, dsns = fresh
    session = await open_session(settings)
    key = next(key for key in map(str, range(500)) if key_tail(key) % 64 in MOVED)
    task = NewTask(id=SystemIds().task_id(key), task_type="t", key=key, fingerprint="f")
    holder, looker = [await asyncpg.connect(dsns[0]) for _ in range(2)]
    async with asyncio.timeout(PROMISED_SECONDS):
        async with holder.transaction():
            await holder.execute("LOCK mainspring.tasks, mainspring.idempotency")
            commits = commits_on(session.store, CLOCK, PROMISED_SECONDS)
            answer = asyncio.create_task(commits.submit(task))
            # Its connection breaks while it is being stored, and it is sent again.
            seen: list[int] = []
            for _ in range(2):
                while not (found := await looker.fetch(WAITING, seen)):
                    await CLOCK.sleep(0.01)
                seen += [row["pid"] for row in found]
                if len(seen) == 1:
                    await looker.execute("SELECT pg_terminate_backend($1)", seen[0])
            await holder.execute("SELECT mainspring.guard_partitions_v1($1)", MOVED)
            await holder.execute("UPDATE mainspring.shard_map SET moving = $1", MOVED)
        # Now it is refused, and nobody knows whether the first try had stored it.
        while not session.store.lost_partitions():
            await CLOCK.sleep(0.01)
        assert not answer.done()
        async with holder.transaction():
            await holder.execute("SELECT mainspring.guard_partitions_v1('{}')")
            await holder.execute("UPDATE mainspring.shard_map SET moving = '{}'")
        assert (await answer).id == task.id
    await session.close()
    for connection in (holder, looker):
        await connection.close()
