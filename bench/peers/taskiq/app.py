"""taskiq on Redis streams: orjson, uvloop, 500 tasks at a time; schedules in a Redis list source,
read every second (once a minute as it comes).
"""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import probe
from taskiq import TaskiqScheduler
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

URL = os.environ["BENCH_REDIS"]
CALLERS = 10

broker = RedisStreamBroker(URL, consumer_id="0", xread_count=100).with_serializer(
    ORJSONSerializer()
)
source = ListRedisScheduleSource(URL, buffer_size=500)
scheduler = TaskiqScheduler(broker, [source])


@broker.task
async def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@broker.task
async def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@broker.task
async def slow(number: int, seconds: float) -> None:
    probe.started(number)
    await asyncio.sleep(seconds)
    probe.ended(number)


class Client:
    async def open(self) -> None:
        await broker.startup()
        await source.startup()

    async def close(self) -> None:
        await broker.shutdown()
        await source.shutdown()

    async def one(self) -> None:
        await noop.kiq(probe.PAYLOAD)

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        waiting = iter(items)

        async def caller() -> None:
            for number, due in waiting:
                at = datetime.fromtimestamp(due, UTC)
                await mark.schedule_by_time(source, at, probe.PAYLOAD, number, due)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def slow(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            await slow.kiq(number, seconds)
