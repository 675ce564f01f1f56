"""How long the planner takes for many schedules that are due in the same second.

    python bench/schedules.py [--schedules 10000]

Starts a PostgreSQL server of its own with durable settings on a directory that is thrown away.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.adapters.postgres.embedded import EmbeddedPostgres
from mainspring.adapters.postgres.migrate import migrate
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.planning import with_state
from mainspring.core.schedule_options import merged, spec_changes
from mainspring.domain.schedule import create, load_spec
from mainspring.ports.schedules import StoredSchedule, TaskTemplate
from mainspring.scheduler.planner import Planner

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


async def fill(store: PostgresStore, count: int, moment: datetime) -> None:
    """Schedules of several kinds that are all due at every minute after `moment`."""
    ids = SystemIds()
    chance = random.Random(7)
    options: list[dict[str, object]] = [
        {"cron": "* * * * *", "timezone": chance.choice(ZONES)},
        {"cron": "0-59 8-20 * * *", "timezone": "UTC"},
        {"cron": ["*/2 * * * *", "1-59/2 * * * *"], "timezone": chance.choice(ZONES)},
        {"every": 60.0, "anchor": moment},
    ]
    gate = asyncio.Semaphore(6)

    async def one(number: int) -> None:
        async with gate:
            spec = load_spec(merged({}, spec_changes(options[number % len(options)])))
            schedule_id = ids.task_id()
            state = create(str(schedule_id), spec, moment)
            template = TaskTemplate(task_type="bench.noop", payload=f'{{"number": {number}}}')
            blank = StoredSchedule(id=schedule_id, name=f"s{number}", template=template, spec="")
            await store.create_schedule(with_state(blank, state, moment))

    await asyncio.gather(*(one(number) for number in range(count)))


async def measure(count: int, rounds: int, planners: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedPostgres(Path(directory) / "data", port=None)
        await server.start()
        try:
            await migrate(server.dsn)
            now = datetime.fromisoformat("2026-05-12T15:00:00+00:00")
            moment = [now]
            store = PostgresStore(PoolOptions(dsn=server.dsn), now=lambda: moment[0])
            began = time.perf_counter()
            await fill(store, count, now)
            made = time.perf_counter() - began
            parts = [
                Planner(store, SystemClock(), SystemChance(), SystemIds()) for _ in range(planners)
            ]
            await parts[0].run_once()
            seconds: list[float] = []
            stored: list[int] = []
            own: list[float] = []
            for number in range(1, rounds + 1):
                moment[0] = now + timedelta(minutes=number)
                began, used = time.perf_counter(), time.process_time()
                stored.append(sum(await asyncio.gather(*(one.run_once() for one in parts))))
                seconds.append(round(time.perf_counter() - began, 3))
                own.append(round(time.process_time() - used, 3))
            await store.close()
        finally:
            await server.stop()
    return {
        "schedules": count,
        "planners": planners,
        "made_per_s": round(count / made),
        "planned": stored,
        "seconds": seconds,
        "own_processor_seconds": own,
        "settings": {"fsync": "on", "cores": len(os.sched_getaffinity(0))},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--planners", type=int, default=1)
    given = parser.parse_args()
    result = asyncio.run(measure(given.schedules, given.rounds, given.planners))
    print(json.dumps(msgspec.to_builtins(result)))


if __name__ == "__main__":
    main()
