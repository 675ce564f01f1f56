"""A scheduler dies or stands still while 300 tasks a second are submitted: its share of the
schedules is served again soon.

`FAILOVER_ROUNDS` sets how often, `FAILOVER_TTL` how long sessions last; with 10, the default of the
product, 6 rounds take two minutes.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator

import psutil
import pytest

from faults.schedulers import TTL_SECONDS, Schedulers
from faults.stage import Program, Stage
from faults.timekeeping import Timekeeping
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "2"))
SERVED_SECONDS = TTL_SECONDS + 5
PER_SECOND = 300
BATCH = 15
SCHEDULES = 24


@pytest.fixture
async def keeping(database: str) -> AsyncIterator[Timekeeping]:
    keeping = Timekeeping(database)
    yield keeping
    await keeping.close()


class Load:
    """Submits so many tasks a second, also after a moment in which it could not."""

    def __init__(self, app: Mainspring) -> None:
        self.app = app
        self.count = 0
        self.slowest = 0.0
        self.began = time.monotonic()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            ahead = self.count / PER_SECOND - (time.monotonic() - self.began)
            if ahead > 0:
                await asyncio.sleep(ahead)
            tasks = [self.app.new_task("work") for _ in range(BATCH)]
            sent = time.monotonic()
            await self.app.submit_many(tasks)
            self.slowest = max(self.slowest, time.monotonic() - sent)
            self.count += BATCH

    async def end(self) -> float:
        """Stop; returns how many were submitted in a second."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        return self.count / (time.monotonic() - self.began)


@pytest.mark.timeout(90 + 40 * ROUNDS)
async def test_a_share_is_served_again_soon_under_load(
    stage: Stage, app: Mainspring, keeping: Timekeeping, rng: random.Random
) -> None:
    schedulers = Schedulers(stage)
    await keeping.make(SCHEDULES)
    alive = [await schedulers.start(), await schedulers.start()]
    await stage.worker()
    for one in alive:
        await one.says("gained partitions")
    load = Load(app)
    took: list[float] = []
    for number in range(ROUNDS):
        await keeping.up_to_date(SERVED_SECONDS, await keeping.now())
        victim = alive.pop(rng.randrange(2))
        sign = signal.SIGKILL if number % 2 == 0 else signal.SIGSTOP
        await asyncio.sleep(rng.random())
        victim.send(sign)
        died_at = await keeping.now()
        took.append(await keeping.up_to_date(SERVED_SECONDS, died_at))
        print(f"{sign.name}: all {SCHEDULES} schedules were served again after {took[-1]:.2f} s")
        alive.append(await replaced(victim, sign, schedulers))
    rate = await load.end()
    print(f"{rate:.0f} submissions a second, the slowest of {BATCH} took {load.slowest:.2f} s;")
    print(f"{ROUNDS} times, TTL {TTL_SECONDS:g} s: {sum(took) / len(took):.2f} s on average,")
    print(f"{max(took):.2f} s at most")
    assert await keeping.violations() == []


async def replaced(victim: Program, sign: signal.Signals, schedulers: Schedulers) -> Program:
    """See to it that there are two again, with a share each."""
    if sign is signal.SIGSTOP:
        shares = victim.said.count("gained partitions")
        psutil.Process(victim.pid).resume()
        await victim.says("gained partitions", times=shares + 1)
        return victim
    heir = await schedulers.start()
    await heir.says("gained partitions")
    return heir
