"""SAQ on Redis: concurrency 20, orjson, results not kept."""

import asyncio
import os
import sys
from typing import Any

import orjson
import probe
import uvloop
from redis.asyncio import Redis
from saq.queue.redis import RedisQueue
from saq.worker import Worker

CALLERS = 50


def queue() -> RedisQueue:
    server = Redis.from_url(os.environ["BENCH_REDIS"])
    return RedisQueue(server, max_concurrent_ops=100, dump=orjson.dumps, load=orjson.loads)


async def noop(context: Any, *, payload: dict[str, Any]) -> None:
    del context, payload
    probe.hit()


async def mark(context: Any, *, payload: dict[str, Any], number: int, due: float) -> None:
    del context, payload
    probe.late(number, due)


async def slow(context: Any, *, number: int, seconds: float) -> None:
    del context
    probe.started(number)
    await asyncio.sleep(seconds)
    probe.ended(number)


class Client:
    async def open(self) -> None:
        self.queue = queue()
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def one(self) -> None:
        await self.queue.enqueue("noop", payload=probe.PAYLOAD, ttl=-1)

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        waiting = iter(items)

        async def caller() -> None:
            for number, due in waiting:
                await self.queue.enqueue(
                    "mark", payload=probe.PAYLOAD, number=number, due=due, scheduled=due, ttl=-1
                )

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            await self.queue.enqueue("slow", number=number, seconds=seconds)


async def worker() -> None:
    jobs = queue()
    await jobs.connect()
    await Worker(jobs, functions=[noop, mark, slow], concurrency=20).start()


if __name__ == "__main__" and sys.argv[1:] == ["worker"]:
    uvloop.run(worker())
