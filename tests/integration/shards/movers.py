"""Movers in processes of their own, which kill or stop themselves at a named point."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from mainspring.adapters.postgres.moving.service import Removals
from mainspring.config import Settings
from mainspring.ports.hooks import HookPoint, Hooks
from mainspring.wiring.moving import removals

TAKEN_OVER = 3
MOVED = tuple(range(16, 32))
FREEZE_SECONDS = 60.0
"""Longest that a mover refuses partitions. It takes one on a machine with room, ten on another."""

PROMISED_SECONDS = FREEZE_SECONDS + 10.0
"""Who waits for so long is refused nothing, whatever becomes of the mover."""


def mover_of(settings: Settings, hooks: Hooks | None = None) -> Removals:
    """Return what moves partitions in this process."""
    return removals(settings, print, freeze_seconds=FREEZE_SECONDS, hooks=hooks)


class Waiting:
    """`ports.hooks.Hooks`: holds a mover up at a point."""

    def __init__(self, point: HookPoint) -> None:
        self.point = point
        self.reached, self.goes = asyncio.Event(), asyncio.Event()

    async def reach(self, point: HookPoint) -> None:
        if point is self.point:
            self.reached.set()
            await self.goes.wait()


class Stops(Exception):
    """Ends a mover in the middle."""


class Stopping:
    """`ports.hooks.Hooks`: raises it at a point."""

    def __init__(self, point: HookPoint) -> None:
        self.point = point

    async def reach(self, point: HookPoint) -> None:
        if point is self.point:
            raise Stops


class Movers:
    """Moves `MOVED`, one process after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def killed_at(self, point: HookPoint, target: int) -> None:
        """Run one until it has killed itself."""
        await self._begin(point, target, signal.SIGKILL)
        answer = await self._answer()
        assert answer == [str(-signal.SIGKILL)], answer

    async def stopped_at(self, point: HookPoint, target: int) -> int:
        """Run one until it stands still, and return its process."""
        await self._begin(point, target, signal.SIGSTOP)
        answer = await self._answer()
        assert answer[0] == "stopped", answer
        return int(answer[1])

    async def ended(self) -> int:
        """Return the exit code of the one that stood still and goes on."""
        (code,) = await self._answer()
        return int(code)

    async def _begin(self, point: HookPoint, target: int, number: signal.Signals) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"16-31 {target} {point} {number.name}\n".encode())
        await self._process.stdin.drain()

    async def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().split()


@asynccontextmanager
async def open_movers(database_url: str) -> AsyncIterator[Movers]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "integration.shards.armed_mover", database_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    try:
        yield Movers(process)
    finally:
        # With one of them that stands still.
        os.killpg(process.pid, signal.SIGKILL)
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
