"""What has to be admitted before it can be claimed: tasks of groups, and of queues with a limit.

The rules are those of the PostgreSQL adapter; here a claim and the admission before
it are one step.
"""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.waiting import Entry
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.placement import base_of
from mainspring.domain.priority import rank
from mainspring.domain.status import WAITING, TaskStatus

LOOK_SECONDS: Final = 0.5
"""When a group of which too much runs is looked at again, if nothing ended before."""

_NONE: Final = QueueLimits()


class Line(NamedTuple):
    """Where tasks stand in line."""

    queue: str
    group_key: str
    priority: int


@dataclass(slots=True)
class Bucket:
    """The tokens of a rate, those of admitted tasks that wait apart."""

    tokens: float
    waiting: int
    refilled_at: datetime

    def refill(self, limit: Limit, waiting: int, now: datetime) -> None:
        """Fill up to now. What waited had its tokens in the bucket for an unknown time."""
        passed = max(0.0, (now - self.refilled_at).total_seconds())
        more = self.tokens + (limit.rate or 0.0) * passed
        self.tokens = max(0.0, min(limit.bucket - self.waiting, more))
        self.waiting = waiting
        self.refilled_at = now


class Seat(NamedTuple):
    """A held task and its turn."""

    turn: int
    row: Row


class Counts:
    """What of a queue is admitted."""

    def __init__(self, queue: str, live: Iterable[Row]) -> None:
        rows = [
            row
            for row in live
            if row.is_admitted and row.group_key is not None and base_of(row.queue) == queue
        ]
        self.waiting = [row for row in rows if row.status in WAITING]
        self.running = [row for row in rows if row.status is TaskStatus.RUNNING]

    def waiting_of(self, group_key: str | None) -> int:
        """Return how many of a group, or of the queue (None), wait to be claimed."""
        return sum(group_key in (None, row.group_key) for row in self.waiting)

    def running_of(self, group_key: str | None) -> int:
        """Return how many of a group, or of the queue (None), run."""
        return sum(group_key in (None, row.group_key) for row in self.running)


class Gates:
    """The lines before the gates of the queues."""

    def __init__(self) -> None:
        self.lines: dict[Line, list[Entry]] = {}
        self._turns: dict[Line, int] = {}
        self._served: dict[tuple[str, int], int] = {}
        self._buckets: dict[tuple[str, str | None], Bucket] = {}

    def add(self, row: Row) -> None:
        """Let a task stand in line."""
        row.is_admitted = False
        insort(self.lines.setdefault(_line(row), []), Entry(row.scheduled_at, row.id.int, row))

    def remove(self, row: Row) -> None:
        """Take a task out; its time must still be the one it was put in with."""
        line = _line(row)
        entries = self.lines[line]
        del entries[bisect_left(entries, (row.scheduled_at, row.id.int))]
        if not entries:
            del self.lines[line]
            self._turns.pop(line, None)

    def choose(
        self,
        queue: str,
        limits: QueueLimits,
        counts: Counts,
        takeable: list[Row],
        room: dict[int, int],
        now: datetime,
    ) -> list[Row]:
        """Return which of the tasks that a worker could take are admitted, of each priority no more
        than there is room for.
        """
        whole = self._room(queue, None, limits.queue, counts, now)
        rooms = {
            key: self._room(queue, key, limits.groups.get(key, limits.group), counts, now)
            for key in {row.group_key or "" for row in takeable}
        }
        seats: list[tuple[datetime, Seat]] = []
        for priority in {row.priority for row in takeable}:
            fitting = [row for row in _fitting(takeable, rooms) if row.priority == priority]
            chosen = self._by_turn(queue, priority, fitting)[: room[priority]]
            ranks = sorted(rank(seat.row.priority, seat.row.scheduled_at) for seat in chosen)
            seats += zip(ranks, chosen, strict=True)
        seats.sort(key=lambda one: (one[0], one[1].row.id.int))
        admitted = [seat for _, seat in (seats if whole == math.inf else seats[: int(whole)])]
        for turn, row in admitted:
            self._turns[_line(row)] = max(self._turns[_line(row)], turn)
            place = (queue, row.priority)
            self._served[place] = max(self._served.get(place, 0), turn - 1)
        self._take_tokens(queue, [seat.row for seat in admitted])
        return [seat.row for seat in admitted]

    def settle(self, queue: str, limits: QueueLimits, counts: Counts, now: datetime) -> None:
        """Let buckets fill from now on, as far as what was admitted has started."""
        for (place, key), bucket in self._buckets.items():
            if place == queue:
                limit = limits.queue if key is None else limits.groups.get(key, limits.group)
                bucket.refill(limit, counts.waiting_of(key), now)

    def wait(
        self, queue: str, limits: QueueLimits, groups: Iterable[str], now: datetime
    ) -> float | None:
        """Return how many seconds until something of these groups, which are held, may start."""
        whole = self._wait(queue, None, limits.queue, now)
        return min(
            (
                max(whole, self._wait(queue, key, limits.groups.get(key, limits.group), now))
                for key in groups
            ),
            default=None,
        )

    def _wait(self, queue: str, key: str | None, limit: Limit, now: datetime) -> float:
        if limit.is_none:
            return 0.0
        bucket = self._buckets.get((queue, key))
        if limit.rate is None or bucket is None or bucket.tokens >= 1:
            return LOOK_SECONDS
        token_at = bucket.refilled_at + timedelta(seconds=(1 - bucket.tokens) / limit.rate)
        return max(0.0, (token_at - now).total_seconds()) + 1e-6

    def _room(
        self, queue: str, key: str | None, limit: Limit, counts: Counts, now: datetime
    ) -> float:
        room = math.inf
        waiting = counts.waiting_of(key)
        if limit.concurrency is not None:
            room = limit.concurrency - waiting - counts.running_of(key)
        if limit.rate is None:
            self._buckets.pop((queue, key), None)
            return max(0, room)
        bucket = self._buckets.get((queue, key))
        if bucket is None:
            bucket = Bucket(max(0.0, limit.bucket - waiting), waiting, now)
            self._buckets[queue, key] = bucket
        else:
            bucket.refill(limit, waiting, now)
        return max(0, min(room, math.floor(bucket.tokens + 1e-9)))

    def _by_turn(self, queue: str, priority: int, rows: list[Row]) -> list[Seat]:
        served = self._served.get((queue, priority), 0)
        places: Counter[Line] = Counter()
        seats = []
        for row in sorted(rows, key=lambda row: (row.scheduled_at, row.id.int)):
            line = _line(row)
            places[line] += 1
            turn = max(self._turns.setdefault(line, served), served) + places[line]
            seats.append(Seat(turn, row))
        seats.sort(key=lambda seat: (seat.turn, seat.row.scheduled_at, seat.row.id.int))
        return seats

    def _take_tokens(self, queue: str, rows: list[Row]) -> None:
        for row in rows:
            for key in (None, row.group_key or ""):
                bucket = self._buckets.get((queue, key))
                if bucket is not None:
                    bucket.tokens -= 1
                    bucket.waiting += 1


def _line(row: Row) -> Line:
    return Line(base_of(row.queue), row.group_key or "", row.priority)


def _fitting(rows: list[Row], rooms: dict[str, float]) -> list[Row]:
    """Return the best of each group, as many as it has room for."""
    counts: Counter[str] = Counter()
    fitting = []
    for row in sorted(rows, key=lambda row: (rank(row.priority, row.scheduled_at), row.id.int)):
        key = row.group_key or ""
        if counts[key] < rooms[key]:
            counts[key] += 1
            fitting.append(row)
    return fitting
