"""Claiming due tasks."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from mainspring.adapters.postgres.leaving import passing_over
from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.adapters.postgres.rows import lease_of, load_of
from mainspring.domain.errors import MainspringError
from mainspring.domain.placement import (
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    Young,
    dealt,
    labels_of,
)
from mainspring.domain.priority import (
    HIGHEST,
    LANES,
    LOWEST,
    STEPS,
    WEIGHTS,
    Level,
    lane_bands,
    lane_of,
    rank,
)
from mainspring.domain.task import Lease
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import Claim, ClaimRequest

_CLAIM: Final = QUERIES["claim"]
_CLAIM_PLACED: Final = QUERIES["claim_placed"]
_WAITS: Final = "t.status IN ('pending', 'retrying')"
_CLAIM_BESIDE: Final = passing_over(_CLAIM, _WAITS)
_CLAIM_PLACED_BESIDE: Final = passing_over(_CLAIM_PLACED, _WAITS)
_BRANCHES: Final = QUERIES["branches_due"]
_LOADS: Final = QUERIES["worker_loads"]
_YOUNG: Final = 1000
"""Most young tasks of a branch that are counted: beyond that everybody has more than enough."""

_SHARES: Final = 8
"""Most branches that a worker takes its share of in one call; the others can wait a moment."""

_ROUNDS: Final = 6
_MARGIN: Final = timedelta(milliseconds=200)
"""How much later than its own time a task may become visible without waiting for a re-read."""

_REREAD_SECONDS: Final = 0.1
_REREAD_SECONDS_MAX: Final = 60.0
_REREAD_SHARE: Final = 20
"""Between these bounds ranges are read from their beginning this fraction of the time."""

_REREAD_SECONDS_ONCE: Final = 0.5
"""How long the first pause after a long reading is at most; each further one at most doubles it."""

_NO_ID: Final = UUID(int=0)
_READERS: Final = 64
"""Sets of task types whose places are remembered; a store serves few."""

_WEIGHTS: Final = [WEIGHTS[lane] for lane in LANES]
_STEPS: Final = [STEPS[lane] for lane in LANES]


class Ages(NamedTuple):
    """At which ages a priority is served in which lane, as columns; seconds of waiting."""

    priorities: list[int]
    lanes: list[int]
    youngest: list[float]
    oldest: list[float | None]
    wake_priorities: list[int]
    wake_ages: list[float]


class Place(NamedTuple):
    """Where to read a range from."""

    time: datetime
    id: UUID


class Claimable(NamedTuple):
    """What of the branches a worker may claim."""

    whole: list[str]
    shares: dict[str, int]
    """Of these only so many tasks."""

    wait: float | None
    """Seconds until somebody has been waited for long enough, or something becomes due."""


class Starts:
    """Where the waiting ranges begin, as far as one reader of them knows.

    Entries of claimed tasks stay in the index until a vacuum, for as long as any old snapshot is
    open, and tasks of types that this reader does not know may wait for long. Reading on from where
    the last claim found the first task skips both. What is inserted before that place became
    visible late, or was put back: for it the ranges are read from their beginning now and then.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], Place] = {}
        self._reading_since: float | None = None
        self._reread_at = 0.0
        self._wait = _REREAD_SECONDS

    def forget(self) -> None:
        """Read from the beginning next: something was put back."""
        self._reread_at = 0.0
        self._reading_since = None

    def known(self, instant: float) -> dict[tuple[str, int], Place]:
        """Return the places to start from; none when it is time to read from the beginning."""
        if self._reading_since is None and instant >= self._reread_at:
            self._reading_since = instant
            self._places = {}
        return self._places

    def learn(self, tail: Record, instant: float) -> None:
        """Remember where a claim found the first task of each range that it looked at."""
        floor = Place(tail["now"] - _MARGIN, _NO_ID)
        for queue in tail["queues"] or ():
            for priority in range(HIGHEST, LOWEST + 1):
                self._places[queue, priority] = floor
        heads = zip(
            tail["head_queues"] or (),
            tail["head_priorities"] or (),
            tail["head_times"] or (),
            tail["head_ids"] or (),
            strict=True,
        )
        for queue, priority, time, task_id in heads:
            self._places[queue, priority] = min(Place(time, task_id), floor)
        if self._reading_since is not None and not tail["unread"]:
            spent = instant - self._reading_since
            wait = min(max(_REREAD_SECONDS, _REREAD_SHARE * spent), _REREAD_SECONDS_MAX)
            # A reading that was lost on the way, or stood still there, seems long as well: for one
            # alone nobody is to overlook what is put back meanwhile.
            self._wait = min(wait, max(2 * self._wait, _REREAD_SECONDS_ONCE))
            self._reread_at = instant + self._wait
            self._reading_since = None


class Claiming(StorePart):
    """`TaskStore.claim`."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._starts: dict[tuple[str, ...], Starts] = {}

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks, the lanes in proportion to their weights."""
        if request.labels:
            return await self._claim_placed(request)
        return await self._claim_from(request, ())

    async def _claim_from(self, request: ClaimRequest, branches: Sequence[str]) -> Claim:
        """Claim from the queues of a request and from some of their branches."""
        served = [request.served.get(lane, 0) for lane in LANES]
        leases: list[Lease] = []
        next_due = None
        for _ in range(_ROUNDS):
            try:
                limit = request.limit - len(leases)
                rows, tail = await self._round(request, branches, limit, served)
            except MainspringError:
                if not leases:
                    raise
                # These are committed: without an answer they would wait for their leases to end.
                break
            leases += rows
            next_due = tail["next_due"]
            # A lane that was thought busy had less than its share, so others were held back; or
            # tasks that this worker cannot run stand before those that it can.
            if len(leases) == request.limit or not (tail["held_back"] or tail["unread"]):
                break
            next_due = 0.0
            for lease in rows:
                served[LANES.index(lease.lane)] += 1
        await self._hooks.reach(HookPoint.CLAIM_AFTER_COMMIT)
        return Claim(leases, None if next_due is None else max(0.0, next_due))

    async def _round(
        self, request: ClaimRequest, branches: Sequence[str], limit: int, served: list[int]
    ) -> tuple[list[Lease], Record]:
        ages = ages_of(request.lanes, self._limit_seconds)
        starts = self._starts_of(request.task_types)
        loop = asyncio.get_running_loop()
        places = starts.known(loop.time())
        rows = await self._main.fetch(
            self._statement(request),
            self._now(),
            request.worker_id,
            limit,
            request.lease_seconds,
            request.task_types,
            request.queues,
            *ages[:4],
            _WEIGHTS,
            _STEPS,
            served,
            *columns_of(places),
            *ages[4:],
            *([branches] if request.labels else ()),
        )
        tail = rows.pop()
        starts.learn(tail, loop.time())
        return [lease_of(row) for row in rows], tail

    def _statement(self, request: ClaimRequest) -> Query:
        if self._is_leaving():
            return _CLAIM_PLACED_BESIDE if request.labels else _CLAIM_BESIDE
        return _CLAIM_PLACED if request.labels else _CLAIM

    async def _claim_placed(self, request: ClaimRequest) -> Claim:
        """Claim for a worker that offers labels: from its queues and from the branches that are
        its own to take, then its share of what less loaded workers are waited for.
        """
        claimable = await self._placement(request)
        claim = await self._claim_from(request, claimable.whole)
        leases = claim.leases
        for branch, share in list(claimable.shares.items())[:_SHARES]:
            room = min(share, request.limit - len(leases))
            if room <= 0:
                continue
            served = Counter(request.served) + Counter(lease.lane for lease in leases)
            part = replace(request, limit=room, queues=(), served=dict(served))
            try:
                leases += (await self._claim_from(part, [branch])).leases
            except MainspringError:
                # What was claimed before is committed, and its holder has to hear of it.
                if not leases:
                    raise
                break
        leases.sort(key=lambda lease: (rank(lease.priority, lease.scheduled_at), lease.id))
        waits = [wait for wait in (claim.next_due_seconds, claimable.wait) if wait is not None]
        is_short = len(leases) < request.limit
        return Claim(leases, min(waits, default=None) if is_short else None)

    async def _placement(self, request: ClaimRequest) -> Claimable:
        """Look which branches have something for a worker."""
        starts = self._starts_of(request.task_types)
        places = starts.known(asyncio.get_running_loop().time())
        rows = await self._main.fetch(
            _BRANCHES,
            self._now(),
            request.labels,
            request.queues,
            request.task_types,
            PATIENCE_SECONDS,
            _YOUNG,
            *columns_of({key: at for key, at in places.items() if labels_of(key[0])}),
        )
        # Not those where nothing is due: what comes at this moment has not been shared yet.
        whole = [row["name"] for row in rows if row["is_open"]]
        waits = [row["next_due"] for row in rows if row["next_due"] is not None]
        found = [
            Young(row["name"], row["count"], tuple(row["task_types"]))
            for row in rows
            if not row["is_open"] and row["count"]
        ]
        if not found:
            return Claimable(whole, {}, min(waits, default=None))
        loads = await self._main.fetch(_LOADS, self._now(), SILENT_SECONDS)
        mine, shares = dealt(
            found, request.worker_id, request.limit, [load_of(one) for one in loads]
        )
        waits += [max(0.0, row["wait"]) for row in rows if row["name"] in shares]
        return Claimable(whole + mine, shares, min(waits, default=None))

    def read_from_the_beginning(self) -> None:
        """Let the next claim look at everything: tasks were put back among older ones."""
        for starts in self._starts.values():
            starts.forget()

    def _starts_of(self, task_types: tuple[str, ...]) -> Starts:
        starts = self._starts.get(task_types)
        if starts is None:
            if len(self._starts) >= _READERS:
                self._starts.clear()
            starts = self._starts[task_types] = Starts()
        return starts


def columns_of(places: Mapping[tuple[str, int], Place]) -> tuple[list[Any], ...]:
    """Return from where ranges are read as arguments: queue, priority, time and id."""
    return (
        [queue for queue, _ in places],
        [priority for _, priority in places],
        [place.time for place in places.values()],
        [place.id for place in places.values()],
    )


@lru_cache(maxsize=256)
def ages_of(lanes: tuple[Level, ...] | None, limit_seconds: float) -> Ages:
    """Return which ages of which priorities belong to the lanes (None: to all)."""
    wanted = LANES if lanes is None else {lane_of(lane) for lane in lanes}
    rows = [
        (priority, LANES.index(lane) + 1, youngest, oldest)
        for priority in range(HIGHEST, LOWEST + 1)
        for lane, youngest, oldest in lane_bands(priority, limit_seconds)
        if lane in wanted
    ]
    # In all lanes a task can be taken as soon as it is due, and stays so.
    wakes = [(row[0], row[2]) for row in rows if lanes is not None or row[2] == 0]
    return Ages(*_columns(rows, 4), *_columns(wakes, 2))


def _columns(rows: list[Any], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
