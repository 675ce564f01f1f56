"""procrastinate on PostgreSQL: concurrency 20, uvloop."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import Any

import probe
import uvloop
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_PG"], min_size=4, max_size=20))
BATCH = 1000
CALLERS = 16


@app.task(name="noop")
async def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@app.task(name="mark")
async def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@app.task(name="slow")
async def slow(number: int, seconds: float) -> None:
    probe.started(number)
    await asyncio.sleep(seconds)
    probe.ended(number)


class Client:
    async def set_up(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def one(self) -> None:
        await noop.defer_async(payload=probe.PAYLOAD)

    async def bulk(self, count: int) -> None:
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await noop.batch_defer_async(*[{"payload": probe.PAYLOAD}] * size)

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        # One time holds for a whole batch, so tasks at different times are submitted one by one.
        waiting = iter(items)

        async def caller() -> None:
            for number, due in waiting:
                job = mark.configure(schedule_at=datetime.fromtimestamp(due, UTC))
                await job.defer_async(payload=probe.PAYLOAD, number=number, due=due)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def future(self, count: int, due: float) -> None:
        for start in range(0, count, BATCH):
            job = mark.configure(schedule_at=datetime.fromtimestamp(due + start % 3600, UTC))
            numbers = range(start, min(count, start + BATCH))
            await job.batch_defer_async(
                *({"payload": probe.PAYLOAD, "number": n, "due": due} for n in numbers)
            )

    async def slow(self, numbers: list[int], seconds: float) -> None:
        await slow.batch_defer_async(*({"number": n, "seconds": seconds} for n in numbers))


async def worker() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=20)


if __name__ == "__main__" and sys.argv[1:] == ["worker"]:
    uvloop.run(worker())
