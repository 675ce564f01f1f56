"""The index that claims read: waiting tasks of each queue and priority by the time they are due.

Within one queue and priority the oldest tasks come first, and a task moves to a better lane as it
waits, so the tasks of one lane are one range of that list and nothing is rewritten as they age.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.adapters.memory.row import Row
from mainspring.domain.placement import base_of
from mainspring.domain.priority import HIGHEST, LANES, LOWEST, Level, lane_entries, rank


class Entry(NamedTuple):
    """A waiting task under its place in the order: by time, then by id."""

    scheduled_at: datetime
    id: int
    row: Row


class Wanted(NamedTuple):
    """What a claim asks for."""

    queues: Container[str]
    task_types: Container[str]
    lanes: Iterable[Level]
    limit: int


class Waiting:
    """The waiting tasks in the order in which they become due."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._lists: dict[tuple[str, int], list[Entry]] = {}
        self._entries = {
            priority: {
                lane: timedelta(seconds=seconds)
                for lane, seconds in lane_entries(priority, limit_seconds).items()
            }
            for priority in range(HIGHEST, LOWEST + 1)
        }

    def add(self, row: Row) -> None:
        """Put a task in."""
        entries = self._lists.setdefault((row.queue, row.priority), [])
        insort(entries, Entry(row.scheduled_at, row.id.int, row))

    def remove(self, row: Row) -> None:
        """Take a task out; its time must still be the one it was put in with."""
        entries = self._lists[row.queue, row.priority]
        del entries[bisect_left(entries, (row.scheduled_at, row.id.int))]
        if not entries:
            del self._lists[row.queue, row.priority]

    def of_base(self, queue: str) -> list[Row]:
        """Return the tasks of a queue and its branches."""
        return [
            entry.row
            for (name, _), entries in self._lists.items()
            if base_of(name) == queue
            for entry in entries
        ]

    def due(self, wanted: Wanted, now: datetime) -> dict[Level, list[Row]]:
        """Return the best tasks of each lane in the order of their rank."""
        found: dict[Level, list[Row]] = {}
        for lane in wanted.lanes:
            rows = [
                row
                for (queue, priority), entries in self._lists.items()
                if queue in wanted.queues and lane in self._entries[priority]
                for row in self._range(entries, priority, lane, wanted, now)
            ]
            rows.sort(key=lambda row: (rank(row.priority, row.scheduled_at), row.id.int))
            found[lane] = rows[: wanted.limit]
        return found

    def next_due(self, wanted: Wanted, now: datetime) -> datetime | None:
        """Return when the next task comes into one of the lanes."""
        times = (
            entry.scheduled_at + wait
            for (queue, priority), entries in self._lists.items()
            if queue in wanted.queues
            for lane, wait in self._entries[priority].items()
            if lane in wanted.lanes
            for entry in self._first_after(entries, now - wait, wanted)
        )
        return min(times, default=None)

    def _range(
        self, entries: list[Entry], priority: int, lane: Level, wanted: Wanted, now: datetime
    ) -> Iterator[Row]:
        waits = self._entries[priority]
        last = bisect_right(entries, (now - waits[lane], math.inf))
        better = LANES.index(lane) - 1
        first = 0
        if better >= 0:
            first = bisect_right(entries, (now - waits[LANES[better]], math.inf))
        count = 0
        for position in range(first, last):
            row = entries[position].row
            if row.task_type in wanted.task_types:
                yield row
                count += 1
                if count == wanted.limit:
                    return

    def _first_after(
        self, entries: list[Entry], moment: datetime, wanted: Wanted
    ) -> Iterator[Entry]:
        for position in range(bisect_right(entries, (moment, math.inf)), len(entries)):
            if entries[position].row.task_type in wanted.task_types:
                yield entries[position]
                return
