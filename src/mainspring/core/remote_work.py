"""Work for workers that speak to the API: in any language, trusted with their own tasks only.

A worker's name is joined to its key, so nobody can renew or end a lease that was given under
another key, not even with the right token: tokens are small numbers. Who held a task under a token
never changes, so looking before a guarded write is enough.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from mainspring.core.access import Principal
from mainspring.domain.errors import MainspringError, StaleLease, TaskNotFound, Unavailable
from mainspring.domain.namespaces import plain_queue
from mainspring.domain.priority import FairShare, Level, rank
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    Lease,
    LeaseRef,
    Released,
    Renewal,
    Retried,
    Settlement,
)
from mainspring.domain.values import check_name
from mainspring.ports.access import Scope
from mainspring.ports.clock import Chance, Clock
from mainspring.ports.store import (
    ClaimRequest,
    Place,
    Store,
)
from mainspring.ports.workers import WorkerState

T = TypeVar("T")

LEASES_MAX: Final = 1000
LEASE_SECONDS_MIN: Final = 1.0
LEASE_SECONDS_MAX: Final = 3600.0
WAIT_SECONDS_MAX: Final = 60.0
_POLL_SECONDS: Final = 0.2
_BEAT_SECONDS: Final = 5.0
_SHARES_MAX: Final = 10_000
_STATUSES: Final = {
    Completed: TaskStatus.COMPLETED,
    Failed: TaskStatus.FAILED,
    Cancelled: TaskStatus.CANCELLED,
}


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker can take now."""

    worker_id: str
    task_types: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    lanes: tuple[Level, ...] | None = None
    labels: tuple[str, ...] = ()
    limit: int = 1
    lease_seconds: float = 60.0
    wait_seconds: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """That an attempt failed: why, and whether there shall be another."""

    error: str
    kind: FailureKind = FailureKind.ERROR
    traceback: str = ""
    retry: bool = True
    retry_after: float | None = None


Outcome = str | MainspringError
"""The status that a task has after its attempt was ended, or why it could not be."""


class RemoteWork:
    """Claims, renewals and endings by workers outside."""

    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._shares: dict[str, FairShare] = {}
        self._is_closing = False

    async def claim(
        self, who: Principal, offer: Offer, has_left: Callable[[], bool] = lambda: False
    ) -> list[Lease]:
        """Lease tasks to a worker, at once or as soon as there are any, within its patience.

        Nothing is held for one that `has_left` meanwhile.
        """
        who.require(Scope.WORK)
        worker_id = self._worker_id(who, offer.worker_id)
        deadline = self._clock.monotonic() + offer.wait_seconds
        beat_at = self._clock.monotonic()
        while not has_left():
            if offer.labels and self._clock.monotonic() >= beat_at:
                # Placement counts on the workers that were seen lately.
                await self._beat(worker_id, who, offer, 0)
                beat_at += _BEAT_SECONDS
            leases, _ = await self._claim_now(who, worker_id, offer)
            if has_left():
                await self._release(leases)
                return []
            left = deadline - self._clock.monotonic()
            if leases or left <= 0 or self._is_closing:
                # What is leased by now is given out, whatever the register says to it.
                with suppress(MainspringError):
                    await self._beat(worker_id, who, offer, len(leases))
                return leases
            await self._clock.sleep(min(_POLL_SECONDS, left))
        return []

    async def _release(self, leases: Sequence[Lease]) -> None:
        """Hand back, uncharged, what nobody is there to take."""
        if leases:
            await self._store.settle(
                [Settlement(lease.id, lease.fencing_token, Released()) for lease in leases]
            )

    def close(self) -> None:
        """Let those who wait for tasks go: the process is about to end."""
        self._is_closing = True

    async def claim_now(self, who: Principal, offer: Offer) -> tuple[list[Lease], float | None]:
        """Lease what is due; also return in how many seconds more will be, if that is known."""
        who.require(Scope.WORK)
        return await self._claim_now(who, self._worker_id(who, offer.worker_id), offer)

    async def present(self, who: Principal, offer: Offer, busy: int) -> None:
        """Put a worker on the list of those that are alive."""
        who.require(Scope.WORK)
        await self._beat(self._worker_id(who, offer.worker_id), who, offer, busy)

    async def leave(self, who: Principal, worker: str) -> None:
        """Take a worker that has drained off the list."""
        who.require(Scope.WORK)
        await self._store.leave(self._worker_id(who, worker))

    async def heartbeat(
        self, who: Principal, worker: str, leases: Sequence[LeaseRef], lease_seconds: float
    ) -> list[Renewal]:
        """Renew leases; those of others come back as not held. When a part of the store is away
        the others have been renewed before that is said.
        """
        who.require(Scope.WORK)
        answers = await asyncio.gather(
            *(
                self._renew(who, worker, part, lease_seconds)
                for part in self._by_part(leases, lambda lease: lease.id)
            ),
            return_exceptions=True,
        )
        renewed: dict[tuple[UUID, int], Renewal] = {}
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            renewed |= {(renewal.id, renewal.fencing_token): renewal for renewal in answer}
        lost = [Renewal(lease.id, lease.fencing_token, held=False) for lease in leases]
        return [renewed.get((one.id, one.fencing_token), one) for one in lost]

    async def _renew(
        self, who: Principal, worker: str, leases: Sequence[LeaseRef], lease_seconds: float
    ) -> list[Renewal]:
        held = await self._held(who, worker, leases)
        return await self._store.heartbeat(held, lease_seconds)

    def _by_part(self, items: Iterable[T], id_of: Callable[[T], UUID]) -> list[list[T]]:
        parts: dict[int, list[T]] = {}
        for item in items:
            parts.setdefault(self._store.shard_of(id_of(item)), []).append(item)
        return list(parts.values())

    async def progress(self, who: Principal, worker: str, lease: LeaseRef, text: str) -> None:
        """Record progress, JSON text, of a running task; raises `StaleLease`."""
        who.require(Scope.WORK)
        held = await self._held(who, worker, [lease])
        if not held or not await self._store.progress(lease, text):
            raise _stale(lease)

    async def end(self, who: Principal, worker: str, lease: LeaseRef, end: Ending | Report) -> str:
        """End an attempt and return the status that the task has now; raises `StaleLease` or
        `TaskNotFound`.
        """
        (outcome,) = await self.end_many(who, worker, [(lease, end)])
        if isinstance(outcome, MainspringError):
            raise outcome
        return outcome

    async def end_many(
        self, who: Principal, worker: str, ends: Sequence[tuple[LeaseRef, Ending | Report]]
    ) -> list[Outcome]:
        """End attempts, each on its own, and answer for each in order; with the outage for those
        in a part of the store that is away, unless it is the only one.
        """
        who.require(Scope.WORK)
        numbered = self._by_part(enumerate(ends), lambda one: one[1][0].id)
        if len(numbered) <= 1:
            return await self._end_many(who, worker, ends)
        answers = await asyncio.gather(
            *(self._end_many(who, worker, [end for _, end in part]) for part in numbered),
            return_exceptions=True,
        )
        outcomes: dict[int, Outcome] = {}
        for part, answer in zip(numbered, answers, strict=True):
            if isinstance(answer, Unavailable):
                outcomes |= {at: answer for at, _ in part}
            elif isinstance(answer, BaseException):
                raise answer
            else:
                outcomes |= {at: one for (at, _), one in zip(part, answer, strict=True)}
        return [outcomes[at] for at in range(len(ends))]

    async def _end_many(
        self, who: Principal, worker: str, ends: Sequence[tuple[LeaseRef, Ending | Report]]
    ) -> list[Outcome]:
        places = await self._store.places(list({lease.id for lease, _ in ends}))
        outcomes: dict[int, Outcome] = {}
        settlements: dict[LeaseRef, tuple[int, Settlement]] = {}
        for at, (lease, end) in enumerate(ends):
            place = places.get(lease.id)
            if place is None or not who.sees(place.queue):
                outcomes[at] = TaskNotFound(f"there is no task {lease.id}", field="task_id")
            elif lease in settlements or not self._is_held(who, worker, lease, places):
                outcomes[at] = _stale(lease)
            else:
                ending = self._ending(place, end) if isinstance(end, Report) else end
                settlements[lease] = at, Settlement(lease.id, lease.fencing_token, ending)
        done = await self._store.settle([one for _, one in settlements.values()])
        looked_up = []
        for (at, settlement), is_done in zip(settlements.values(), done, strict=True):
            if not is_done:
                outcomes[at] = _stale(ends[at][0])
            elif isinstance(settlement.ending, Retried | Released):
                looked_up.append(at)
            else:
                outcomes[at] = _STATUSES[type(settlement.ending)]
        if looked_up:
            statuses = await self._store.statuses([ends[at][0].id for at in looked_up])
            outcomes |= {at: statuses.get(ends[at][0].id, "unknown") for at in looked_up}
        return [outcomes[at] for at in range(len(ends))]

    def _ending(self, place: Place, report: Report) -> Ending:
        failure = Failure(kind=report.kind, message=report.error, traceback=report.traceback)
        if not report.retry:
            return Failed(failure)
        delay = report.retry_after
        if delay is None:
            delay = place.backoff.delay(max(1, place.attempt_count), self._chance.random())
        return Retried(failure, delay)

    async def _held(
        self, who: Principal, worker: str, leases: Sequence[LeaseRef]
    ) -> list[LeaseRef]:
        places = await self._store.places([lease.id for lease in leases])
        held = {lease for lease in leases if self._is_held(who, worker, lease, places)}
        return list(held)

    def _is_held(
        self, who: Principal, worker: str, lease: LeaseRef, places: Mapping[UUID, Place]
    ) -> bool:
        place = places.get(lease.id)
        return (
            place is not None
            and who.sees(place.queue)
            and place.fencing_token == lease.fencing_token
            and place.worker_id == self._worker_id(who, worker)
        )

    async def _claim_now(
        self, who: Principal, worker_id: str, offer: Offer
    ) -> tuple[list[Lease], float | None]:
        names = await self._store.queue_names()
        visible = tuple(filter(who.sees, names))
        if offer.queues is not None:
            wanted = {who.stored_queue(queue) for queue in offer.queues}
            visible = tuple(name for name in visible if name in wanted)
        if not visible:
            return [], None
        share = self._share(worker_id)
        request = ClaimRequest(
            worker_id=worker_id,
            limit=offer.limit,
            lease_seconds=offer.lease_seconds,
            task_types=offer.task_types,
            # All names, so that one made meanwhile in another namespace is not among them.
            queues=visible,
            lanes=offer.lanes,
            labels=offer.labels,
            served=share.served,
        )
        claim = await self._store.claim(request)
        ordered = share.order([(lease.lane, lease) for lease in _by_rank(claim.leases)])
        leases = [
            msgspec.structs.replace(lease, queue=plain_queue(lease.queue)) for lease in ordered
        ]
        return leases, claim.next_due_seconds

    async def _beat(self, worker_id: str, who: Principal, offer: Offer, busy: int) -> None:
        # Always named: a worker of one namespace does not serve all queues of the installation.
        if offer.queues is not None:
            queues = tuple(who.stored_queue(queue) for queue in offer.queues)
        else:
            queues = tuple(filter(who.sees, await self._store.queue_names()))
        await self._store.beat(
            WorkerState(
                worker_id=worker_id,
                hostname="remote",
                pid=0,
                task_types=offer.task_types,
                queues=queues,
                lanes=offer.lanes,
                labels=offer.labels,
                slots=offer.limit,
                busy=busy,
            )
        )

    def _worker_id(self, who: Principal, worker: str) -> str:
        check_name(worker, "worker_id")
        return f"{who.key_id}:{worker}"

    def _share(self, worker_id: str) -> FairShare:
        if worker_id not in self._shares:
            if len(self._shares) >= _SHARES_MAX:
                self._shares.pop(next(iter(self._shares)))
            self._shares[worker_id] = FairShare()
        return self._shares[worker_id]


def _by_rank(leases: Sequence[Lease]) -> list[Lease]:
    return sorted(leases, key=lambda lease: (rank(lease.priority, lease.scheduled_at), lease.id))


def _stale(lease: LeaseRef) -> StaleLease:
    return StaleLease(
        f"the lease of task {lease.id} under the token {lease.fencing_token} is not held "
        "by this worker any more; leave the task alone, whoever owns it now will end it",
        field="fencing_token",
    )
