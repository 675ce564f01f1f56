"""Moves partitions and kills itself at a named point.

Arguments: the databases, the partitions, the shard counted from 0, and the point.
"""

import asyncio
import dataclasses
import os
import signal
import sys

from mainspring.config import Settings
from mainspring.domain.moves import read_partitions
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.moving import removals


class Armed:
    """`ports.hooks.Hooks`: ends this process at once."""

    def __init__(self, point: HookPoint) -> None:
        self.point = point

    async def reach(self, point: HookPoint) -> None:
        if point is self.point:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, partitions: str, target: str, point: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=url)
    mover = removals(settings, print, hooks=Armed(HookPoint(point)))
    await mover.move(read_partitions([partitions]), int(target))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
