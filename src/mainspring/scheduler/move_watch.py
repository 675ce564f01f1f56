"""Sees to it that no partition stays refused when the process that moves it is gone, and that a
shard gets back the places of queues that tasks took along.
"""

import logging
from typing import Final

from mainspring.domain.errors import MainspringError, Unavailable
from mainspring.domain.partitions import spans
from mainspring.ports.moves import Moves, Relieved
from mainspring.scheduler.loop import Interval, Loop

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

LOOK_SECONDS: Final = 1.0


class MoveWatch:
    """`core.service.Service`: takes over from movers that died or stand still, and takes places of
    queues back.
    """

    name = "move watch"

    def __init__(self, moves: Moves, loop: Loop, *, seconds: float = LOOK_SECONDS) -> None:
        self._moves = moves
        self._loop = loop
        self._interval = Interval(seconds=seconds, longest_pause_seconds=5.0)
        self._told = ""

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.repeat(self.name, self.run_once, self._interval)

    async def run_once(self) -> int:
        """Look once; returns how many moves were taken over."""
        count = 0
        try:
            relieved = await self._moves.relieve()
            if relieved is not None:
                _LOGGER.warning("%s", _told_of(relieved))
                count = 1
            await self._moves.take_places_back()
        except Unavailable:
            raise
        except MainspringError as error:
            # Whatever is wrong here, the other duties must not end for it.
            if error.message != self._told:
                self._told = error.message
                _LOGGER.warning(
                    "what a move left behind cannot be looked after: %s; `mainspring shards list` "
                    "says what there is to do",
                    error.message,
                )
            return count
        self._told = ""
        return count


def _told_of(relieved: Relieved) -> str:
    move = relieved.move
    what = f"the move of the partitions {spans(move.partitions)} to shard {move.target + 1}"
    if relieved.was_decided:
        return f"{what} was decided, and the process that made it is gone; it is finished now"
    return (
        f"{what} was left by its process, and they were refused for {relieved.seconds or 0:.1f} s; "
        f"shard {move.source + 1} keeps them and takes what is written to them again. The move "
        "waits for `mainspring shards move --resume` or `mainspring shards move --cancel`"
    )
