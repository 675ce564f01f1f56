"""A store with a ready queue before it, with short ways to say things."""

import asyncio
from typing import Any, Protocol
from uuid import UUID

import asyncpg

from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.domain.task import Lease, NewTask
from mainspring.ports.coordination import Fence
from mainspring.ports.ready_queue import ReadyQueueUnavailable
from mainspring.ports.store import ClaimRequest
from mainspring.scheduler.feeder import Feeder
from mainspring.scheduler.loop import Loop

SLICES = 6
NEVER = 3600.0


class Owner:
    """Owns all slices under an epoch."""

    def __init__(self, epoch: int, slices: int = 1) -> None:
        self.epoch = epoch
        self.slices = slices

    def fence(self) -> Fence:
        return Fence(dict.fromkeys(range(self.slices), self.epoch))


class Bench:
    """A store, its ready queue and what feeds it."""

    def __init__(self, store: QueuedStore, sql: asyncpg.Connection) -> None:
        self.store = store
        self.sql = sql
        self.ids = SystemIds()
        self.owner = Owner(1, store.ready_queue.slices)

    def feeder(self, owner: Owner | None = None) -> Feeder:
        clock = SystemClock()
        loop = Loop(clock, SystemChance())
        return Feeder(self.store.ready_queue, self.store, owner or self.owner, loop, clock)

    async def feed(self) -> int:
        await self.store.publisher.sent()
        return await self.feeder().run_once()

    def task(self, **fields: Any) -> NewTask:
        return NewTask(id=self.ids.task_id(), task_type="mail", **fields)

    async def submit(self, count: int = 1, **fields: Any) -> list[UUID]:
        tasks = [self.task(**fields) for _ in range(count)]
        return [answer.id for answer in await self.store.submit(tasks, first=True)]

    async def claim(self, limit: int = 100, **fields: Any) -> list[Lease]:
        await self.store.publisher.sent()
        request = ClaimRequest(
            worker_id="w", limit=limit, lease_seconds=60.0, task_types=("mail",), **fields
        )
        return (await self.store.claim(request)).leases

    async def held(self) -> int:
        await self.store.publisher.sent()
        return (await self.store.ready_queue.figures()).entries


class Opener(Protocol):
    """Opens a store before whose database is the Redis of a URL."""

    async def __call__(self, url: str, slices: int = SLICES, **settings: Any) -> Bench: ...


async def ready(bench: Bench) -> Bench:
    """Nothing is found from here on but through the ready queue."""
    await bench.feed()
    # The look that comes first in the life of a claimer.
    await bench.claim()
    bench.store._look_seconds = NEVER
    bench.store._look_at = asyncio.get_running_loop().time() + NEVER
    return bench


async def fed_again(bench: Bench) -> int:
    """Feed until everything is fed; returns how many entries were missing the last time."""
    for _ in range(300):
        try:
            return await bench.feed()
        except ReadyQueueUnavailable:
            await asyncio.sleep(0.02)
    raise AssertionError("never fed again")
