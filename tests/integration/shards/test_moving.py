"""Partitions move from one shard to another under load: nothing is lost, nothing is there twice."""

import asyncio
import dataclasses
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from integration.shards.traffic import CLOCK, Traffic
from mainspring.config import Settings
from mainspring.domain.errors import Conflict, NotFound
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.moving import removals
from mainspring.wiring.store import migrate, open_session

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

POINTS = [point for point in HookPoint if point.value.startswith("move.")]
SEED = int(os.environ.get("MOVE_SEED", random.randrange(2**32)))
MOVED = tuple(range(16, 32))


@pytest.fixture
async def fresh(dsns: list[str], tmp_path: Path) -> tuple[Settings, list[str]]:
    """Settings for two new shards, and where they are."""
    settings = dataclasses.replace(
        Settings(), database_url=",".join(dsns), data_dir=tmp_path, grpc_port=-1
    )
    await migrate(settings)
    return settings, dsns


@pytest.fixture
async def traffic(fresh: tuple[Settings, list[str]]) -> AsyncIterator[Traffic]:
    session = await open_session(fresh[0])
    traffic = Traffic(session, SEED)
    await traffic.start()
    yield traffic
    await traffic.stop()
    await session.close()


class Killed:
    """Movers that kill themselves, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def at(self, point: HookPoint, target: int) -> None:
        """Run one until it kills itself."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"16-31 {target} {point}\n".encode())
        while (line := await self.process.stdout.readline()).strip() != b"-9":
            assert line not in (b"", b"0\n"), "it ended by itself"


@pytest.fixture
async def killed(fresh: tuple[Settings, list[str]]) -> AsyncIterator[Killed]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "integration.shards.armed_mover", fresh[0].database_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    yield Killed(process)
    process.kill()
    await process.communicate()


async def check_settled(dsns: list[str], owners: int) -> None:
    """Nothing is left of the move itself, and every shard has the same map."""
    maps = set()
    for dsn in dsns:
        connection = await asyncpg.connect(dsn)
        (row,) = await connection.fetch("SELECT * FROM mainspring.shard_map")
        assert row["moving"] == []
        assert not row["unsettled"]
        maps.add((row["version"], tuple(row["owners"])))
        for table in ("moves", "move_changes"):
            assert await connection.fetchval(f"SELECT count(*) FROM mainspring.{table}") == 0
        noting = await connection.fetch(
            "SELECT FROM pg_trigger WHERE tgname LIKE 'moving%' AND NOT tgisinternal"
        )
        assert noting == []
        await connection.close()
    ((_, found),) = maps
    assert {found[one] for one in MOVED} == {owners}


async def test_moves_under_load_whoever_dies(
    fresh: tuple[Settings, list[str]], killed: Killed, traffic: Traffic
) -> None:
    settings, dsns = fresh
    said: list[str] = []
    await CLOCK.sleep(1.2)
    seconds = await removals(settings, said.append).move(MOVED, 1)
    print(f"refused for {seconds:.2f} s; {said}")
    await check_settled(dsns, 1)
    for number, point in enumerate(POINTS):
        target = number % 2
        async with asyncio.timeout(30):
            await killed.at(point, target)
        print(f"killed at {point}")
        with pytest.raises(Conflict, match="a move is under way, of the partitions 16-31 to shard"):
            await removals(settings, print).move((1, 2), 1)
        seconds = await removals(settings, said.append).resume()
        print(f"refused for {seconds:.2f} s")
        await check_settled(dsns, target)
    with pytest.raises(NotFound):
        await removals(settings, print).resume()
    await traffic.stop()
    await traffic.drained()
    await traffic.check(dsns)
    print(f"{len(traffic.accepted)} tasks, {traffic.refused} refused")
    assert traffic.refused == 0
