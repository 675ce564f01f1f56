"""Moves partitions and kills itself at a named point.

Its argument is the list of databases. Each line that it reads is a move: the partitions, the shard
counted from 0, and the point; it answers with the exit code.
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


def in_child(url: str, partitions: str, target: str, point: str) -> int:
    """Move in a process of its own, which needs no time to start; return how that ended."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(main(url, partitions, target, point))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(in_child(sys.argv[1], *line.split()), flush=True)
