"""A scheduler that ends or stops itself at a named point of its work.

Arguments: the point, how often it is reached before, and the signal. Points and numbers may be
lists, separated by commas: when it goes on after one stop, it is on its way to the next.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence

from mainspring.adapters.logs import configure_logs
from mainspring.adapters.postgres.store import open_store
from mainspring.config import load
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.connecting import pool_options
from mainspring.wiring.coordination import open_coordination
from mainspring.wiring.scheduler import scheduler_ownership, scheduler_service


class Armed:
    """`ports.hooks.Hooks`: sends this process a signal."""

    def __init__(self, plan: Sequence[tuple[HookPoint, int]], sign: signal.Signals) -> None:
        self.plan = deque(plan)
        self.sign = sign
        self.reached = 0

    async def reach(self, point: HookPoint) -> None:
        if not self.plan or point is not self.plan[0][0]:
            return
        self.reached += 1
        if self.reached >= self.plan[0][1]:
            self.plan.popleft()
            self.reached = 0
            print(f"{self.sign.name} at {point}", flush=True)
            os.kill(os.getpid(), self.sign)


async def main(points: str, counts: str, sign: str) -> None:
    settings = load()
    configure_logs(settings.log_level, settings.log_format)
    plan = zip(map(HookPoint, points.split(",")), map(int, counts.split(",")), strict=True)
    hooks = Armed(list(plan), signal.Signals[sign])
    store = await open_store(pool_options(settings), hooks=hooks)
    coordination = open_coordination(settings)
    ownership = scheduler_ownership(store, coordination, settings, hooks)
    print(f"member {ownership.member}", flush=True)
    await scheduler_service(store, settings, ownership).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
