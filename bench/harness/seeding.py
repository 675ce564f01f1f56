"""Rows in large numbers, made by the server itself: future, waiting and finished tasks."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import asyncpg

_SQL: Final = Path(__file__).parent / "sql"
_CONNECTIONS: Final = 2
_PART: Final = 250_000
KINDS: Final = ("future", "waiting", "finished")


def seed(dsn: str, kind: str, count: int, *, first: int = 0) -> float:
    """Add so many rows of a kind, numbered from `first`, and return how many seconds it took."""
    statement = (_SQL / f"{kind}.sql").read_text()
    started = time.monotonic()
    asyncio.run(_insert(dsn, statement, first, count))
    return time.monotonic() - started


async def _insert(dsn: str, statement: str, first: int, count: int) -> None:
    parts = iter(range(first, first + count, _PART))

    async def fill() -> None:
        connection = await asyncpg.connect(dsn, server_settings={"synchronous_commit": "off"})
        try:
            for low in parts:
                high = min(low + _PART, first + count) - 1
                await connection.execute(statement, low, high, timeout=3600)
        finally:
            await connection.close()

    await asyncio.gather(*(fill() for _ in range(_CONNECTIONS)))
    connection = await asyncpg.connect(dsn)
    try:
        # What autovacuum would do in the minutes after; a checkpoint so that the next one is far.
        for table in ("tasks", "task_history"):
            await connection.execute(f"VACUUM (ANALYZE) mainspring.{table}", timeout=3600)
        await connection.execute("CHECKPOINT", timeout=3600)
    finally:
        await connection.close()


def hold_snapshot(dsn: str, work: Callable[[], None]) -> None:
    """Do something while another session keeps a snapshot from before it open."""

    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                await connection.fetchval("SELECT count(*) FROM mainspring.queues")
                await asyncio.to_thread(work)
        finally:
            await connection.close()

    asyncio.run(run())
