"""Priorities, levels, aging and weighted sharing.

Aging is linear in time (effective priority = priority - minutes waited / 10), so the order of two
waiting tasks of one level never changes: it is the order of `rank`. Moving up a level is a
function of how long a task has waited, so it is computed where tasks are claimed and never
written. Sharing between levels is weighted fair queuing: the k-th task of a level has the turn
``k / weight``, and tasks start in the order of their turns.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import itemgetter
from typing import Final, TypeVar

T = TypeVar("T")

HIGHEST: Final = 0
LOWEST: Final = 10
DEFAULT: Final = 5
MINUTES_PER_STEP: Final = 10.0
"""Waiting this long makes a task as urgent as one of the next better priority."""


class Level(StrEnum):
    """The named bands of priority. Low and batch share one lane."""

    # That of a plain enumeration is a function in Python, and each claim looks up a few per task.
    __hash__ = str.__hash__

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    BATCH = "batch"


LANES: Final[tuple[Level, ...]] = (Level.CRITICAL, Level.HIGH, Level.NORMAL, Level.LOW)
"""The levels that are served on their own, best first. Batch work waits in the lane of low."""

WEIGHTS: Final[dict[Level, int]] = {
    Level.CRITICAL: 50,
    Level.HIGH: 30,
    Level.NORMAL: 15,
    Level.LOW: 5,
}
"""Starts out of 100 while every lane is backlogged."""

STEPS: Final[dict[Level, int]] = {
    lane: math.lcm(*WEIGHTS.values()) // weight for lane, weight in WEIGHTS.items()
}
"""How far apart the turns of two tasks of one lane are."""

LIMIT_SECONDS: Final = 1800.0
"""The longest a task waits in one level before it moves up to the next (default)."""

_WORST_OF_LANE: Final[dict[Level, int]] = {
    Level.CRITICAL: 0,
    Level.HIGH: 3,
    Level.NORMAL: 6,
    Level.LOW: 10,
}


def level_of(priority: int) -> Level:
    """Return the level that a priority (0 to 10) belongs to when it has not waited yet."""
    if priority == LOWEST:
        return Level.BATCH
    return next(lane for lane in LANES if priority <= _WORST_OF_LANE[lane])


def lane_of(level: Level) -> Level:
    """Return the lane a level is served in."""
    return Level.LOW if level is Level.BATCH else level


def rank(priority: int, scheduled_at: datetime) -> datetime:
    """Return the sort key of waiting tasks within a lane: smaller starts first."""
    return scheduled_at + timedelta(minutes=MINUTES_PER_STEP * priority)


def lane_entries(priority: int, limit_seconds: float = LIMIT_SECONDS) -> dict[Level, float]:
    """Return how many seconds of waiting bring a priority into each lane it can reach.

    A task enters the next better lane as soon as its effective priority falls into it, or when it
    has waited ``limit_seconds`` in the lane it is in, whichever comes first.
    """
    home = LANES.index(lane_of(level_of(priority)))
    entries = {LANES[home]: 0.0}
    for position in range(home - 1, -1, -1):
        lane = LANES[position]
        by_age = (priority - _WORST_OF_LANE[lane]) * MINUTES_PER_STEP * 60
        by_limit = entries[LANES[position + 1]] + limit_seconds
        entries[lane] = min(by_age, by_limit)
    return entries


def lane_after(priority: int, waited_seconds: float, limit_seconds: float = LIMIT_SECONDS) -> Level:
    """Return the lane a task is served in after it has been ready for so long."""
    entries = lane_entries(priority, limit_seconds)
    return next(lane for lane in LANES if lane in entries and waited_seconds >= entries[lane])


def lane_bands(
    priority: int, limit_seconds: float = LIMIT_SECONDS
) -> Iterator[tuple[Level, float, float | None]]:
    """Yield each lane that a priority is served in with the ages at which it is: from so many
    seconds of waiting on, and until so many (None: for ever).
    """
    entries = lane_entries(priority, limit_seconds)
    oldest: float | None = None
    for lane in LANES:
        if lane in entries:
            if oldest is None or entries[lane] < oldest:
                yield lane, entries[lane], oldest
            oldest = entries[lane]


class FairShare:
    """Weighted fair sharing between lanes, exact across batches of any size.

    ``served`` counts what each lane was given. The next task of a lane has the turn
    ``(served + 1) / weight``; the smallest turn goes first, ties to the better lane. A lane with
    nothing to give loses the turns it missed, so the others use its share and it cannot hoard.
    Turns are kept as whole numbers: ``(served + 1) * STEPS[lane]``.
    """

    def __init__(self) -> None:
        self._served = dict.fromkeys(LANES, 0)

    @property
    def served(self) -> dict[Level, int]:
        """What each lane was given since the counters were last brought down together."""
        return dict(self._served)

    def order(self, tasks: Sequence[tuple[Level, T]]) -> list[T]:
        """Return tasks in the order of their turns and count them as served.

        Each task comes with its lane; tasks of one lane come in the order of their rank.
        """
        reached = dict(self._served)
        placed: list[tuple[int, int, T]] = []
        for lane, task in tasks:
            reached[lane] += 1
            placed.append((reached[lane] * STEPS[lane], LANES.index(lane), task))
        placed.sort(key=itemgetter(0, 1))
        if placed:
            self._count(reached, placed[-1][0])
        return [task for _, _, task in placed]

    def _count(self, reached: dict[Level, int], last_turn: int) -> None:
        for lane in LANES:
            missed = (last_turn - 1) // STEPS[lane]
            self._served[lane] = max(reached[lane], missed)
        cycles = min(self._served[lane] // WEIGHTS[lane] for lane in LANES)
        for lane in LANES:
            self._served[lane] -= cycles * WEIGHTS[lane]
