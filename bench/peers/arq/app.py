"""arq on Redis: 500 jobs at a time, polled every 50 ms, results not kept; BENCH_DEFAULTS=1 leaves
everything as it comes.
"""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import probe
from arq import create_pool
from arq.connections import RedisSettings

SERVER = RedisSettings.from_dsn(os.environ["BENCH_REDIS"])
CALLERS = 50
_TUNED = os.environ.get("BENCH_DEFAULTS") != "1"


async def noop(context: dict[str, Any], payload: dict[str, Any]) -> None:
    del context, payload
    probe.hit()


async def mark(context: dict[str, Any], payload: dict[str, Any], number: int, due: float) -> None:
    del context, payload
    probe.late(number, due)


async def slow(context: dict[str, Any], number: int, seconds: float) -> None:
    del context
    probe.started(number)
    await asyncio.sleep(seconds)
    probe.ended(number)


class WorkerSettings:
    functions = (noop, mark, slow)
    redis_settings = SERVER
    if _TUNED:
        max_jobs = 500
        poll_delay = 0.05
        keep_result = 0
        log_results = False


class Client:
    async def open(self) -> None:
        self.pool = await create_pool(SERVER)

    async def close(self) -> None:
        await self.pool.aclose()

    async def one(self) -> None:
        await self.pool.enqueue_job("noop", probe.PAYLOAD)

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        waiting = iter(items)

        async def caller() -> None:
            for number, due in waiting:
                until = datetime.fromtimestamp(due, UTC)
                await self.pool.enqueue_job("mark", probe.PAYLOAD, number, due, _defer_until=until)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            await self.pool.enqueue_job("slow", number, seconds)
