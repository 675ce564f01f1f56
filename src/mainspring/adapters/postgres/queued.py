"""The task store with a ready queue before it."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from mainspring.adapters.postgres.pool import PoolOptions, Record
from mainspring.adapters.postgres.publisher import Publisher
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.rows import lease_of
from mainspring.adapters.postgres.store import PostgresStore, server_clock, shard_label
from mainspring.adapters.postgres.store_time import StoreTime
from mainspring.domain.errors import MainspringError
from mainspring.domain.placement import labels_of
from mainspring.domain.priority import HIGHEST, LANES, LIMIT_SECONDS, LOWEST, rank
from mainspring.domain.shards import check_alone
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    Lease,
    NewTask,
    Released,
    Rescued,
    Retried,
    Settlement,
    Submission,
)
from mainspring.ports.coordination import Fence
from mainspring.ports.hooks import HookPoint, Hooks
from mainspring.ports.ready_queue import (
    Entry,
    ReadyQueue,
    ReadyQueueUnavailable,
    Taken,
    TakeRequest,
    Window,
    WindowState,
)
from mainspring.ports.schedules import Committed, SchedulePlan
from mainspring.ports.store import Claim, ClaimRequest, DeadLetterFilter

AHEAD_SECONDS: Final = 30.0
"""What is due within this time is told to the ready queue at once; later tasks are fed to it."""

LOOK_SECONDS: Final = 2.0
"""How often a claimer that found too little looks into the store, whatever the queue says."""

_CLAIM_IDS: Final = QUERIES["claim_ids"]
_ENTRIES: Final = QUERIES["waiting_entries"]
_STATE: Final = QUERIES["window_state"]
_WINDOW: Final = QUERIES["window_entries"]
_COMING: Final = QUERIES["window_coming"]


class QueuedStore(PostgresStore):
    """`ports.store.Store` whose claims ask a ready queue which tasks are due and lease them by
    their key. Also `ports.ready_queue.ReadySource`.

    While the queue is away, is not fed, or has too little, claims look into the store as they do
    without one. Workers that offer labels always do.
    """

    def __init__(
        self,
        options: PoolOptions,
        queue: ReadyQueue,
        *,
        hooks: Hooks | None = None,
        limit_seconds: float = LIMIT_SECONDS,
        now: Callable[[], datetime | None] | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        super().__init__(options, hooks=hooks, limit_seconds=limit_seconds, now=now)
        self.ready_queue = queue
        self.publisher = Publisher(queue, self._sender, self._entries_of)
        self._announcer = self.publisher
        self._time = StoreTime(server_clock if now is None else now)
        self._look_seconds = look_seconds
        self._look_at = 0.0
        self._series = secrets.token_hex(8)
        self._count = 0

    async def submit(self, tasks: Sequence[NewTask], *, first: bool = False) -> list[Submission]:
        """Store tasks durably and answer for each in order."""
        answers = await super().submit(tasks, first=first)
        now = self._time.known()
        if now is None:
            self.publisher.look_up([answer.id for answer in answers])
        else:
            until = now + timedelta(seconds=AHEAD_SECONDS)
            entries = (
                _entry_of(task, now)
                for task, answer in zip(tasks, answers, strict=True)
                if answer.is_new and not labels_of(task.queue)
            )
            self.publisher.put([entry for entry in entries if entry.scheduled_at <= until])
        return answers

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks, the lanes in proportion to their weights."""
        if request.labels:
            return await super().claim(request)
        if self.is_worth_a_look:
            return await self._claim_at_the_gates(request)
        token = self._next_token()
        taken = await self._take(request, token)
        if taken is None:
            return await super().claim(request)
        self.free(request.freed)
        leases, is_gated = await self._lease(request, taken, token) if taken.found else ([], False)
        left = request.limit - len(leases)
        next_due = taken.next_due_seconds
        if left > 0 and is_gated:
            next_due = await self._look(request, leases, left)
        elif left > 0 and len(taken.found) >= request.limit:
            # Some were not there any more, so nothing is known of those behind them.
            next_due = 0.0
        elif left > 0 and (not taken.is_complete or self._is_time_to_look()):
            next_due = await self._look(request, leases, left)
        waits = [wait for wait in (next_due, self.gate_seconds) if wait is not None]
        return Claim(leases, min(waits, default=None) if len(leases) < request.limit else None)

    async def _claim_at_the_gates(self, request: ClaimRequest) -> Claim:
        """Claim from the store while something is held there, of which the queue does not know."""
        leases: list[Lease] = []
        next_due = await self._look(request, leases, request.limit)
        return Claim(leases, next_due if len(leases) < request.limit else None)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts, and tell the queue of those that are to run again soon."""
        answers = await super().settle(settlements)
        self.publisher.look_up(
            [
                one.id
                for one, is_ended in zip(settlements, answers, strict=True)
                if is_ended
                and isinstance(one.ending, Retried | Released)
                and one.ending.delay_seconds <= AHEAD_SECONDS
            ]
        )
        return answers

    async def rescue(self, limit: int) -> list[Rescued]:
        """Take back tasks whose lease has expired."""
        rescued = await super().rescue(limit)
        self.publisher.look_up([task.id for task in rescued if task.status is TaskStatus.PENDING])
        return rescued

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus | None:
        """Move a waiting task to another time."""
        status = await super().reschedule(task_id, at)
        self.publisher.look_up([task_id])
        return status

    async def replay(
        self, which: DeadLetterFilter, limit: int, payload: str | None = None
    ) -> list[UUID]:
        """Reopen dead letters."""
        ids = await super().replay(which, limit, payload)
        self.publisher.look_up(ids)
        return ids

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        """Carry out plans, each as a whole or not at all."""
        committed = await super().commit_plans(plans, fence)
        self.publisher.look_up(
            [
                tick.task.id
                for plan, answer in zip(plans, committed, strict=True)
                for tick in plan.ticks
                if tick.task is not None and tick.nominal_at in answer.started
            ]
        )
        return committed

    async def pause(self, queue: str) -> None:
        """Let no task of the queue start until it is resumed."""
        await super().pause(queue)
        with suppress(ReadyQueueUnavailable):
            await self.ready_queue.pause(queue, is_paused=True)

    async def resume(self, queue: str) -> None:
        """Let the tasks of the queue start again."""
        await super().resume(queue)
        with suppress(ReadyQueueUnavailable):
            await self.ready_queue.pause(queue, is_paused=False)

    async def window_state(self) -> WindowState:
        """Return what a round of feeding starts from."""
        (row,) = await self._main.fetch(_STATE, self._now())
        self._time.learn(row["now"])
        return WindowState(row["now"], frozenset(row["paused"]))

    async def window(self, until: datetime, bound: int) -> Window:
        """Return what waits until then: of each queue and priority the first, up to a bound."""
        rows = await self._main.fetch(_WINDOW, until, bound)
        entries = [Entry(*row) for row in rows]
        counts = Counter((entry.queue, entry.priority) for entry in entries)
        lasts = {(entry.queue, entry.priority): entry.scheduled_at for entry in entries}
        full = {place: lasts[place] for place, count in counts.items() if count >= bound}
        coming = [Entry(*row) for row in await self._main.fetch(_COMING, until, bound)]
        for queue, count in Counter(entry.queue for entry in coming).items():
            if count >= bound:
                last = max(entry.scheduled_at for entry in coming if entry.queue == queue)
                for priority in range(HIGHEST, LOWEST + 1):
                    place = queue, priority
                    full[place] = min(full.get(place, last), last)
        entries += [entry for entry in coming if not labels_of(entry.queue)]
        return Window(entries, full)

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self.publisher.close()
        await self.ready_queue.close()
        await super().close()

    async def _take(self, request: ClaimRequest, token: str) -> Taken | None:
        """Ask the queue; None when it cannot be used."""
        now = self._time.known() or (await self.window_state()).now
        wanted = TakeRequest(
            token=token,
            now=now,
            limit=request.limit,
            task_types=request.task_types,
            queues=request.queues,
            lanes=request.lanes,
            served=request.served,
            limit_seconds=self._limit_seconds,
        )
        try:
            return await self.ready_queue.take(wanted)
        except ReadyQueueUnavailable:
            return None

    async def _lease(
        self, request: ClaimRequest, taken: Taken, token: str
    ) -> tuple[list[Lease], bool]:
        """Lease what was taken, and tell the queue what is left of it. Also returns whether some of
        it has to be admitted first.
        """
        await self._hooks.reach(HookPoint.LEASE_AFTER_POP)
        rows = await self._main.fetch(
            _CLAIM_IDS,
            self._now(),
            request.worker_id,
            request.lease_seconds,
            [task_id for task_id, _ in taken.found],
            [LANES.index(lane) + 1 for _, lane in taken.found],
            request.task_types,
            request.queues,
        )
        leases = [lease_of(row) for row in rows if row["lane"] is not None]
        if leases:
            self._time.learn(leases[0].started_at)
        self.publisher.confirm(token)
        rest = [row for row in rows if row["lane"] is None]
        waiting = [row for row in rest if not row["is_gated"]]
        if waiting:
            await self._correct(waiting)
        leases.sort(key=_order)
        await self._hooks.reach(HookPoint.CLAIM_AFTER_COMMIT)
        return leases, len(waiting) < len(rest)

    async def _correct(self, rows: Sequence[Record]) -> None:
        """What was early comes back with its time; what is paused, with word that it is."""
        with suppress(ReadyQueueUnavailable):
            for queue in sorted({row["queue"] for row in rows if row["is_paused"]}):
                await self.ready_queue.pause(queue, is_paused=True)
        self.publisher.put([_waiting(row) for row in rows])

    async def _look(self, request: ClaimRequest, leases: list[Lease], left: int) -> float | None:
        """Claim what the queue does not know of; adds to the leases, returns when more is due."""
        served = Counter(request.served) + Counter(lease.lane for lease in leases)
        try:
            claim = await super().claim(replace(request, limit=left, served=dict(served)))
        except MainspringError:
            if not leases:
                raise
            # These are committed: without an answer they would wait for their leases to end.
            return 0.0
        self._look_at = asyncio.get_running_loop().time() + self._look_seconds
        self.publisher.remove([_leased(lease) for lease in claim.leases])
        leases += claim.leases
        leases.sort(key=_order)
        return claim.next_due_seconds

    def _is_time_to_look(self) -> bool:
        return asyncio.get_running_loop().time() >= self._look_at

    async def _entries_of(self, ids: Sequence[UUID]) -> list[Entry]:
        rows = await self._main.fetch(_ENTRIES, self._now(), ids, AHEAD_SECONDS)
        self._time.learn(rows[0]["now"])
        return [_waiting(row) for row in rows if row["id"] is not None]

    def _next_token(self) -> str:
        self._count += 1
        return f"{self._series}-{self._count}"


async def open_queued_store(
    options: PoolOptions,
    queue: ReadyQueue,
    *,
    hooks: Hooks | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> QueuedStore:
    """Open the store as `open_store` does; the ready queue may be away."""
    check_alone(await shard_label(options))
    return QueuedStore(options, queue, hooks=hooks, limit_seconds=limit_seconds)


def _entry_of(task: NewTask, now: datetime) -> Entry:
    """Return a task that was just stored; its time may be off by as much as `now` is."""
    if task.scheduled_at is None:
        at = now + timedelta(seconds=task.delay_seconds)
    else:
        at = max(now, task.scheduled_at)
    return Entry(task.id, task.queue, task.priority, task.task_type, at)


def _waiting(row: Record) -> Entry:
    return Entry(row["id"], row["queue"], row["priority"], row["task_type"], row["scheduled_at"])


def _leased(lease: Lease) -> Entry:
    return Entry(lease.id, lease.queue, lease.priority, lease.task_type, lease.scheduled_at)


def _order(lease: Lease) -> tuple[datetime, UUID]:
    return rank(lease.priority, lease.scheduled_at), lease.id
