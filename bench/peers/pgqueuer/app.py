"""pgqueuer on PostgreSQL: batches of 1,000 in, dequeue batches of BENCH_BATCH, durable tables."""

import asyncio
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import asyncpg
import probe
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.models import Job

DSN = os.environ["BENCH_PG"]
DEQUEUE = int(os.environ.get("BENCH_BATCH", "200"))
BATCH = 1000


def encoded(**more: float) -> bytes:
    return json.dumps({**probe.PAYLOAD, **more}).encode()


async def noop(job: Job) -> None:
    json.loads(job.payload or b"{}")
    probe.hit()


async def mark(job: Job) -> None:
    payload = json.loads(job.payload or b"{}")
    probe.late(payload["number"], payload["due"])


async def slow(job: Job) -> None:
    payload = json.loads(job.payload or b"{}")
    probe.started(payload["number"])
    await asyncio.sleep(payload["seconds"])
    probe.ended(payload["number"])


class Client:
    def set_up(self) -> None:
        subprocess.run(
            [Path(sys.executable).parent / "pgq", "--pg-dsn", DSN, "install"],
            check=True,
            capture_output=True,
        )

    async def open(self) -> None:
        self.connection = await asyncpg.connect(DSN)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        await self.connection.close()

    async def one(self) -> None:
        await self.queries.enqueue("noop", encoded(), 0)

    async def bulk(self, count: int) -> None:
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            payloads: list[bytes | None] = [encoded() for _ in range(size)]
            await self.queries.enqueue(["noop"] * size, payloads, [0] * size)

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        for start in range(0, len(items), BATCH):
            part = items[start : start + BATCH]
            payloads: list[bytes | None] = [encoded(number=n, due=due) for n, due in part]
            now = time.time()
            after: list[timedelta | None] = [timedelta(seconds=due - now) for _, due in part]
            await self.queries.enqueue(["mark"] * len(part), payloads, [0] * len(part), after)

    async def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            await self.queries.enqueue("slow", encoded(number=number, seconds=seconds), 0)


async def worker() -> None:
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(DSN))
    for handler in (noop, mark, slow):
        queuer.entrypoint(handler.__name__)(handler)
    await queuer.run(batch_size=DEQUEUE)


if __name__ == "__main__" and sys.argv[1:] == ["worker"]:
    uvloop.run(worker())
