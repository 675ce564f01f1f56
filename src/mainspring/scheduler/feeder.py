"""Feeds the ready queue from the task store, and so makes good for whatever it lost or missed.

Each round compares a slice with what waits in the store, both ways. So there is no difference
between a queue that was emptied, one that came back with what it knew long ago, and one in which a
single message was lost. Who is told of a task after its commit only makes it quicker.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from mainspring.ports.clock import Clock
from mainspring.ports.coordination import Fence
from mainspring.ports.ready_queue import (
    Feeding,
    ReadyQueue,
    ReadyQueueUnavailable,
    ReadySource,
    Round,
)
from mainspring.scheduler.loop import Interval, Loop

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

FEED_SECONDS: Final = 0.5
"""How often a slice is compared with the store, if that is little work (default)."""

AHEAD_SECONDS: Final = 30.0
"""How long before their time tasks come to the ready queue."""

RANGE_MOST: Final = 10_000
"""Most tasks of one queue and priority that the ready queue is fed with; the rest follows."""

TOTAL_MOST: Final = 50_000
"""About as many tasks the ready queue is fed with altogether."""

_RANGE_LEAST: Final = 500
_FIRST_BOUND: Final = 2000
_REST_FACTOR: Final = 10.0
_REST_SECONDS_MAX: Final = 2.0


class Owner(Protocol):
    """Knows which partitions are ours."""

    def fence(self) -> Fence:
        """Return the epochs of what is ours now."""
        ...


class Feeder:
    """`core.service.Service`: feeds the slices whose partitions this scheduler owns."""

    name = "feeder"

    def __init__(
        self,
        queue: ReadyQueue,
        source: ReadySource,
        owner: Owner,
        loop: Loop,
        clock: Clock,
        *,
        seconds: float = FEED_SECONDS,
        shard: int | None = None,
    ) -> None:
        self._queue = queue
        self._source = source
        self._owner = owner
        self._loop = loop
        self._clock = clock
        self._interval = Interval(
            seconds=seconds, first_pause_seconds=seconds, longest_pause_seconds=2.0
        )
        self._what = "the ready queue" if shard is None else f"the ready queue of shard {shard}"
        self._bound = _FIRST_BOUND
        self._told: dict[int, tuple[int, bool]] = {}

    async def run(self) -> None:
        """Feed until cancelled."""
        await self._loop.repeat(self.name, self._round_and_rest, self._interval)

    async def run_once(self) -> int:
        """Feed the slices of ours once; returns how many entries were missing.

        One that cannot be fed holds up none of the others, which may be on another server; then
        the error is raised.
        """
        epochs = self._owner.fence().epochs
        slices = [number for number in range(self._queue.slices) if number in epochs]
        if not slices:
            return 0
        state = await self._source.window_state()
        until = state.now + timedelta(seconds=AHEAD_SECONDS)
        # From here on the queue takes everything until then, so that nothing falls between what is
        # read now and what is told later.
        opened: list[tuple[Feeding, Round]] = []
        failed: list[ReadyQueueUnavailable] = []
        for number in slices:
            feeding = Feeding(slice=number, epoch=epochs[number], until=until, paused=state.paused)
            try:
                began = await self._queue.begin(feeding)
            except ReadyQueueUnavailable as error:
                failed.append(error)
                continue
            if began is not None:
                opened.append((feeding, began))
            elif self._is_news(feeding, is_ours=False):
                # Who owns a partition is for the task store to say, so it is not given up for this.
                _LOGGER.warning("%s is fed by somebody else: slice %d", self._what, number)
        missing = await self._fill(opened, until, failed) if opened else 0
        if missing:
            self._source.announce()
        if failed:
            raise failed[0]
        return missing

    async def _fill(
        self,
        opened: Sequence[tuple[Feeding, Round]],
        until: datetime,
        failed: list[ReadyQueueUnavailable],
    ) -> int:
        """Let these slices hold what waits; returns how many entries were missing in all."""
        window = await self._source.window(until, self._bound)
        ranges = Counter((entry.queue, entry.priority) for entry in window.entries)
        share = TOTAL_MOST // max(1, len(ranges))
        self._bound = min(max(share, _RANGE_LEAST), RANGE_MOST)
        total = 0
        for feeding, began in opened:
            try:
                missing = await began.fill(window.entries, window.limits)
            except ReadyQueueUnavailable as error:
                failed.append(error)
                continue
            if missing is None:
                # Another owner, or the queue was emptied: the next round finds out.
                continue
            if self._is_news(feeding, is_ours=True):
                _LOGGER.info("%s is fed: slice %d, %d entries", self._what, feeding.slice, missing)
            total += missing
        return total

    def _is_news(self, feeding: Feeding, *, is_ours: bool) -> bool:
        """Whether who feeds a slice has not been said yet."""
        news = feeding.epoch, is_ours
        told, self._told[feeding.slice] = self._told.get(feeding.slice), news
        return told != news

    async def _round_and_rest(self) -> int:
        """Feed, and leave most of the time to others when there is much to compare."""
        started = self._clock.monotonic()
        missing = await self.run_once()
        spent = self._clock.monotonic() - started
        await self._clock.sleep(min(_REST_FACTOR * spent, _REST_SECONDS_MAX))
        return missing
