"""What the tests of the store port share: a store, its clock, and short ways to say things."""

import random
from typing import Any
from uuid import UUID

from mainspring.domain.ids import deciding_key, make_id, random_bits_needed
from mainspring.domain.priority import LANES, FairShare, Level, rank
from mainspring.domain.task import (
    CancelState,
    Completed,
    Ending,
    Failure,
    FailureKind,
    Lease,
    LeaseRef,
    NewTask,
    Retried,
    Settlement,
    Task,
)
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import Claim, ClaimRequest, Page, Store, TaskFilter
from manual_clock import ManualClock

LEASE_SECONDS = 60.0
BOOM = Failure(kind=FailureKind.ERROR, message="ValueError: no", traceback="Traceback: no")


class LostReplyError(Exception):
    """The connection broke between the store and its caller."""


class Trap:
    """Hooks that write down what was reached and break the connection where they are told to."""

    def __init__(self) -> None:
        self.reached: list[HookPoint] = []
        self.breaking: set[HookPoint] = set()
        self.error: Exception = LostReplyError()

    async def reach(self, point: HookPoint) -> None:
        self.reached.append(point)
        if point in self.breaking:
            raise self.error


class Scene:
    """One store with a clock that moves by hand, seen by one worker."""

    def __init__(self, store: Store, clock: ManualClock, trap: Trap) -> None:
        self.store = store
        self.clock = clock
        self.trap = trap
        self.chance = random.Random(11)

    def task(self, **fields: Any) -> NewTask:
        """Make a submission; what is not said is as unremarkable as can be."""
        milliseconds = int(self.clock.now().timestamp() * 1000)
        bits = self.chance.getrandbits(random_bits_needed())
        keys = (fields.get(name) for name in ("group_key", "unique_key", "key"))
        task_id = make_id(milliseconds, bits, deciding_key(*keys))
        return NewTask(**{"id": task_id, "task_type": "mail", **fields})

    async def submit(self, **fields: Any) -> UUID:
        (answer,) = await self.store.submit([self.task(**fields)])
        return answer.id

    async def submit_many(self, count: int, **fields: Any) -> list[UUID]:
        tasks = [self.task(**fields) for _ in range(count)]
        return [answer.id for answer in await self.store.submit(tasks)]

    async def claim(self, limit: int = 1, **fields: Any) -> list[Lease]:
        return (await self.ask(limit, **fields)).leases

    async def ask(self, limit: int = 1, **fields: Any) -> Claim:
        request = {
            "worker_id": "w1",
            "limit": limit,
            "lease_seconds": LEASE_SECONDS,
            "task_types": ("mail",),
            **fields,
        }
        return await self.store.claim(ClaimRequest(**request))

    async def running(self, **fields: Any) -> Lease:
        """Submit one task and claim it."""
        task_id = await self.submit(**fields)
        leases = await self.claim()
        assert [lease.id for lease in leases] == [task_id]
        return leases[0]

    async def settle(self, lease: Lease, ending: Ending) -> bool:
        (answer,) = await self.store.settle([Settlement(lease.id, lease.fencing_token, ending)])
        return answer

    async def complete(self, lease: Lease) -> bool:
        return await self.settle(lease, Completed('{"ok": true}'))

    async def fail(self, **fields: Any) -> UUID:
        """Put one task into the dead letters."""
        lease = await self.running(**{"max_retries": 0, **fields})
        assert await self.settle(lease, Retried(BOOM, 0.0))
        return lease.id

    async def held(self, lease: Lease) -> bool:
        (renewal,) = await self.store.watch([ref(lease)])
        return renewal.held

    async def cancel(self, task_id: UUID, reason: str | None = None) -> CancelState:
        (state,) = await self.store.cancel([task_id], reason)
        return state

    async def get(self, task_id: UUID) -> Task:
        task = await self.store.get(task_id)
        assert task is not None
        return task

    async def page(self, limit: int = 10, cursor: str | None = None, **fields: Any) -> Page:
        return await self.store.page(TaskFilter(**fields), limit, cursor)

    async def ids_of(self, **fields: Any) -> set[UUID]:
        page = await self.page(1000, **fields)
        return {task.task_id for task in page.tasks}

    async def drain(self, share: FairShare, batches: list[int]) -> list[Lease]:
        """Claim batch after batch, as one worker, and return the order of the starts."""
        starts: list[Lease] = []
        for size in batches:
            leases = await self.claim(size, served=share.served)
            leases.sort(key=lambda lease: (rank_of(lease), lease.id.int))
            starts += share.order([(lease.lane, lease) for lease in leases])
        return starts


def ref(lease: Lease) -> LeaseRef:
    return LeaseRef(lease.id, lease.fencing_token)


def rank_of(lease: Lease) -> Any:
    return rank(lease.priority, lease.scheduled_at)


def tally(starts: list[Lease]) -> dict[Level, int]:
    """Count starts by lane."""
    return {lane: sum(lease.lane is lane for lease in starts) for lane in LANES}
