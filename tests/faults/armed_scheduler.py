"""A scheduler that ends or stops itself at a named point of its work.

Arguments: the point, how often it is reached before, and the signal. No point: never.
"""

import asyncio
import os
import signal
import sys

from mainspring.adapters.logs import configure_logs
from mainspring.adapters.postgres.store import open_store
from mainspring.config import load
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.connecting import pool_options
from mainspring.wiring.coordination import open_coordination
from mainspring.wiring.scheduler import scheduler_ownership, scheduler_service


class Armed:
    """`ports.hooks.Hooks`: sends this process a signal."""

    def __init__(self, point: HookPoint, left: int, sign: signal.Signals) -> None:
        self.point = point
        self.left = left
        self.sign = sign

    async def reach(self, point: HookPoint) -> None:
        if point is not self.point:
            return
        self.left -= 1
        if self.left == 0:
            print(f"{self.sign.name} at {point}", flush=True)
            os.kill(os.getpid(), self.sign)


async def main(point: str, left: str, sign: str) -> None:
    settings = load()
    configure_logs(settings.log_level, settings.log_format)
    hooks = Armed(HookPoint(point), int(left), signal.Signals[sign])
    store = await open_store(pool_options(settings), hooks=hooks)
    coordination = open_coordination(settings)
    ownership = scheduler_ownership(store, coordination, settings, hooks)
    print(f"member {ownership.member}", flush=True)
    await scheduler_service(store, settings, ownership).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
