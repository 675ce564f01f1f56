"""Claiming due tasks."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from mainspring.adapters.postgres.ages import arrays_of_ages
from mainspring.adapters.postgres.arrays import array_of
from mainspring.adapters.postgres.groups import Admission, Admitting, Group
from mainspring.adapters.postgres.leaving import passing_over
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.adapters.postgres.rows import lease_of, load_of
from mainspring.domain.errors import MainspringError
from mainspring.domain.placement import (
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    Young,
    base_of,
    dealt,
    labels_of,
)
from mainspring.domain.priority import (
    HIGHEST,
    LANES,
    LOWEST,
    STEPS,
    WEIGHTS,
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

_WEIGHTS: Final = array_of(WEIGHTS[lane] for lane in LANES)
_STEPS: Final = array_of(STEPS[lane] for lane in LANES)


class Place(NamedTuple):
    """Where to read a range from."""

    time: datetime
    id: UUID


class Found(NamedTuple):
    """What one look found: leases, seconds until more is due, and until a gate is worth a look."""

    leases: list[Lease]
    next_due: float | None
    gate_due: float | None


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

    def reach_back(self, since: Mapping[str, datetime]) -> None:
        """Read queues from these times on at least: tasks were put in there."""
        for key, place in self._places.items():
            time = since.get(base_of(key[0]))
            if time is not None and time <= place.time:
                self._places[key] = Place(time, _NO_ID)

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


class Claiming(Admitting):
    """`TaskStore.claim`."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._starts: dict[tuple[str, ...], Starts] = {}

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks, the lanes in proportion to their weights."""
        self.free(request.freed)
        leases: list[Lease] = []
        rated: list[Group] = []
        found = admission = None
        try:
            if self.is_worth_a_look:
                # If it fails, what needs no admission can still be claimed.
                with suppress(MainspringError):
                    admission = await self._let_in(request, rated)
            for _ in range(_ROUNDS):
                found = await self._claim_once(_rest(request, leases))
                leases += found.leases
                self.learn_gates(found.gate_due)
                await self._refill(rated)
                if len(leases) >= request.limit or not self.is_worth_a_look:
                    break
                if admission is None or admission.admitted:
                    admission = await self._let_in(_rest(request, leases), rated)
                if not admission.admitted:
                    break
        except MainspringError:
            if not leases:
                raise
            # These are committed: without an answer they would wait for their leases to end.
        await self._hooks.reach(HookPoint.CLAIM_AFTER_COMMIT)
        is_short = len(leases) < request.limit
        return Claim(leases, _wait(found, admission) if is_short else None)

    async def _let_in(self, request: ClaimRequest, rated: list[Group]) -> Admission:
        """Admit tasks, which may have waited for longer than what was read up to."""
        admission = await self.admit(request)
        for starts in self._starts.values():
            starts.reach_back(admission.since)
        rated += admission.rated
        return admission

    async def _refill(self, rated: list[Group]) -> None:
        """Let the buckets fill of what was admitted and claimed."""
        if rated:
            with suppress(MainspringError):
                await self.refill(rated)
            rated.clear()

    async def _claim_once(self, request: ClaimRequest) -> Found:
        if request.labels:
            return await self._claim_placed(request)
        return await self._claim_from(request, ())

    async def _claim_from(self, request: ClaimRequest, branches: Sequence[str]) -> Found:
        """Claim from the queues of a request and from some of their branches."""
        served = [request.served.get(lane, 0) for lane in LANES]
        leases: list[Lease] = []
        next_due = gate_due = None
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
            next_due, gate_due = tail["next_due"], tail["gate_due"]
            # A lane that was thought busy had less than its share, so others were held back; or
            # tasks that this worker cannot run stand before those that it can.
            if len(leases) == request.limit or not (tail["held_back"] or tail["unread"]):
                break
            next_due = 0.0
            for lease in rows:
                served[LANES.index(lease.lane)] += 1
        return Found(leases, None if next_due is None else max(0.0, next_due), gate_due)

    async def _round(
        self, request: ClaimRequest, branches: Sequence[str], limit: int, served: list[int]
    ) -> tuple[list[Lease], Record]:
        ages = arrays_of_ages(request.lanes, self._limit_seconds)
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
            array_of(served),
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

    async def _claim_placed(self, request: ClaimRequest) -> Found:
        """Claim for a worker that offers labels: from its queues and from the branches that are
        its own to take, then its share of what less loaded workers are waited for.
        """
        claimable = await self._placement(request)
        found = await self._claim_from(request, claimable.whole)
        leases = found.leases
        for branch, share in list(claimable.shares.items())[:_SHARES]:
            room = min(share, request.limit - len(leases))
            if room <= 0:
                continue
            part = replace(_rest(request, leases), limit=room, queues=())
            try:
                leases += (await self._claim_from(part, [branch])).leases
            except MainspringError:
                # What was claimed before is committed, and its holder has to hear of it.
                if not leases:
                    raise
                break
        leases.sort(key=lambda lease: (rank(lease.priority, lease.scheduled_at), lease.id))
        waits = [wait for wait in (found.next_due, claimable.wait) if wait is not None]
        return Found(leases, min(waits, default=None), found.gate_due)

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


def _rest(request: ClaimRequest, leases: list[Lease]) -> ClaimRequest:
    """Return what is left of a request after some leases of it."""
    if not leases:
        return request
    served = Counter(request.served) + Counter(lease.lane for lease in leases)
    return replace(request, limit=request.limit - len(leases), served=dict(served))


def _wait(found: Found | None, admission: Admission | None) -> float | None:
    """Return how many seconds to wait after a claim that came back short."""
    if found is None:
        return 0.0
    waits = [
        found.next_due,
        None if admission is None else admission.wait,
        None if found.gate_due is None or found.gate_due <= 0 else found.gate_due,
    ]
    return min((wait for wait in waits if wait is not None), default=None)


def columns_of(places: Mapping[tuple[str, int], Place]) -> tuple[list[Any], ...]:
    """Return from where ranges are read as arguments: queue, priority, time and id."""
    return (
        [queue for queue, _ in places],
        [priority for _, priority in places],
        [place.time for place in places.values()],
        [place.id for place in places.values()],
    )
