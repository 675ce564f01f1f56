"""Moves partitions and sends itself a signal at a named point.

Its argument is the list of databases. Each line that it reads is a move: the partitions, the shard
counted from 0, the point, and the signal. It answers with `stopped` and the process if that
stands still, and with the exit code in the end: `TAKEN_OVER` for one that was.
"""

import asyncio
import dataclasses
import logging
import os
import signal
import sys

from integration.shards.movers import FREEZE_SECONDS, TAKEN_OVER
from mainspring.adapters.postgres.moving.end import TakenOver
from mainspring.config import Settings
from mainspring.domain.moves import read_partitions
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.moving import removals

_LOGGER = logging.getLogger("mainspring.shards")


class Armed:
    """`ports.hooks.Hooks`: sends this process a signal, once."""

    def __init__(self, point: HookPoint, number: signal.Signals) -> None:
        self.point: HookPoint | None = point
        self.number = number

    async def reach(self, point: HookPoint) -> None:
        if point is self.point:
            self.point = None
            os.kill(os.getpid(), self.number)


async def main(url: str, partitions: str, target: str, point: str, number: str) -> None:
    settings = dataclasses.replace(Settings(), database_url=url)
    hooks = Armed(HookPoint(point), signal.Signals[number])
    mover = removals(settings, _LOGGER.info, hooks=hooks, freeze_seconds=FREEZE_SECONDS)
    await mover.move(read_partitions([partitions]), int(target))


def in_child(url: str, words: list[str]) -> int:
    """Move in a process of its own, which needs no time to start; return how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(main(url, *words))
            code = 0
        except TakenOver:
            code = TAKEN_OVER
        finally:
            os._exit(code)
    while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
        print("stopped", child, flush=True)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(in_child(sys.argv[1], line.split()), flush=True)
