"""Writes to live tasks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from mainspring.adapters.memory.admission import Admission
from mainspring.adapters.memory.placement import Branches
from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables, UsedKey
from mainspring.adapters.memory.waiting import Wanted
from mainspring.domain.placement import labels_of
from mainspring.domain.priority import LANES, STEPS, Level, rank
from mainspring.domain.status import WAITING, TaskStatus, Transition
from mainspring.domain.task import (
    Cancelled,
    CancelState,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Lease,
    LeaseRef,
    NewTask,
    Released,
    Renewal,
    Rescued,
    Retried,
    Settlement,
    Submission,
)
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import Claim, ClaimRequest, Hint

_SOON: Final = timedelta(seconds=1)
"""Whoever waits looks by himself for what is due later than this."""


class MemoryTasks:
    """`ports.store.TaskStore` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def submit(self, tasks: Sequence[NewTask], *, first: bool = False) -> list[Submission]:
        """Store tasks and answer for each in order. To look for them costs nothing here."""
        del first
        Branches(self._tables).check(task.queue for task in tasks)
        now = self._tables.now()
        answers = [self._submit(task, now) for task in tasks]
        await self._tables.hooks.reach(HookPoint.SUBMIT_AFTER_COMMIT)
        return answers

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks by turn and rank."""
        tables = self._tables
        now = tables.now()
        gate_wait = Admission(tables).admit(request, now)
        queues = {
            queue
            for queue, paused in tables.queues.items()
            if not paused
            and not labels_of(queue)
            and (request.queues is None or queue in request.queues)
        }
        shares: dict[str, int] = {}
        waits: list[float] = [] if gate_wait is None else [gate_wait]
        if request.labels:
            whole, shares, wait = Branches(tables).claimable(request, now)
            queues.update(whole)
            waits += [] if wait is None else [wait]
        wanted = Wanted(
            queues=queues,
            task_types=frozenset(request.task_types),
            lanes=LANES if request.lanes is None else request.lanes,
            limit=request.limit,
        )
        leases = self._take(wanted, request, request.served)
        for branch, share in shares.items():
            room = min(share, request.limit - len(leases))
            served = Counter(request.served) + Counter(lease.lane for lease in leases)
            part = wanted._replace(queues={branch}, limit=room)
            leases += self._take(part, request, served)
        if shares:
            leases.sort(key=lambda lease: (rank(lease.priority, lease.scheduled_at), lease.id))
        Admission(tables).settle(request, now)
        next_due = tables.waiting.next_due(wanted, now)
        if next_due is not None:
            waits.append((next_due - now).total_seconds())
        await tables.hooks.reach(HookPoint.CLAIM_AFTER_COMMIT)
        is_short = len(leases) < request.limit
        return Claim(leases, min(waits, default=None) if is_short else None)

    def _take(
        self, wanted: Wanted, request: ClaimRequest, served: Mapping[Level, int]
    ) -> list[Lease]:
        """Lease the first of what is due by turn."""
        tables = self._tables
        now = tables.now()
        due = tables.waiting.due(wanted, now)
        leases = []
        for lane, row in _by_turn(due, served)[: wanted.limit]:
            tables.lease(row, request.worker_id, request.lease_seconds)
            leases.append(row.lease(lane, now))
        return leases

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        """Extend the leases that are still held."""
        for lease in leases:
            row = self._tables.held(lease.id, lease.fencing_token)
            if row is not None:
                self._tables.extend(row, lease_seconds)
        answers = await self.watch(leases)
        await self._tables.hooks.reach(HookPoint.HEARTBEAT_AFTER_REPLY)
        return answers

    async def watch(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        """Say which leases are held and which tasks are to be cancelled."""
        return [self._renewal(lease) for lease in leases]

    async def leases_of(self, worker_id: str) -> list[LeaseRef]:
        """Return every lease that a worker has."""
        return self._tables.leases_of(worker_id)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts where the token still owns the task."""
        await self._tables.hooks.reach(HookPoint.SETTLE_BEFORE_COMMIT)
        answers = [self._settle(settlement) for settlement in settlements]
        await self._tables.hooks.reach(HookPoint.SETTLE_AFTER_COMMIT)
        return answers

    async def progress(self, lease: LeaseRef, progress: str) -> bool:
        """Record progress on a running task."""
        row = self._tables.held(lease.id, lease.fencing_token)
        if row is None:
            return False
        row.progress = progress
        return True

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel waiting tasks and ask running ones to stop."""
        answers = [self._cancel(task_id, reason) for task_id in ids]
        await self._tables.hooks.reach(HookPoint.CANCEL_AFTER_COMMIT)
        return answers

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus | None:
        """Move a waiting task to another time."""
        row = self._tables.find(task_id)
        if row is None:
            return None
        now = self._tables.now()
        when = now if at is None else max(at, now)
        if self._tables.move(row, Transition.RESCHEDULE, when):
            self._hint_ready(row, now)
        return row.status

    async def rescue(self, limit: int) -> list[Rescued]:
        """Take back tasks whose lease has expired."""
        now = self._tables.now()
        rescued = []
        for row in self._tables.expired(limit):
            self._rescue(row, now)
            rescued.append(Rescued(row.id, row.status))
        await self._tables.hooks.reach(HookPoint.RESCUE_AFTER_COMMIT)
        return rescued

    def _submit(self, task: NewTask, now: datetime) -> Submission:
        used = None if task.key is None else self._tables.keys.get(task.key)
        if used is not None:
            conflict = used.fingerprint != task.fingerprint
            return Submission(used.id, is_new=False, conflict=conflict)
        if self._tables.find(task.id) is not None:
            return Submission(task.id, is_new=False)
        row = new_row(task, now)
        twin = None if row.unique is None else self._tables.unique.get(row.unique)
        if twin is not None:
            return Submission(twin, is_new=False)
        if task.key is not None:
            self._tables.keys[task.key] = UsedKey(task.id, task.fingerprint, now)
        self._tables.insert(row)
        if task.webhook is not None:
            self._tables.webhooks[row.id] = task.webhook
            self._tables.queues.setdefault(task.webhook.queue, False)
        self._hint_ready(row, now)
        return Submission(task.id)

    def _renewal(self, lease: LeaseRef) -> Renewal:
        row = self._tables.held(lease.id, lease.fencing_token)
        return Renewal(
            lease.id,
            lease.fencing_token,
            held=row is not None,
            cancel_requested=row is not None and row.cancel_requested,
        )

    def _settle(self, settlement: Settlement) -> bool:
        row = self._tables.held(settlement.id, settlement.fencing_token)
        if row is None:
            return False
        now = self._tables.now()
        match settlement.ending:
            case Completed(result):
                row.result = result
                self._tables.move(row, Transition.COMPLETE)
            case Failed(failure):
                row.record(failure, now)
                self._tables.move(row, Transition.FAIL)
            case Cancelled(reason):
                row.reason = row.reason if reason is None else reason
                self._tables.move(row, Transition.CANCEL_RUNNING)
            case Retried(failure, delay):
                row.record(failure, now)
                self._retry(row, now + timedelta(seconds=delay))
            case Released(delay):
                self._release(row, delay, now)
        self._hint_ready(row, now)
        return True

    def _retry(self, row: Row, when: datetime) -> None:
        if row.cancel_requested:
            self._tables.move(row, Transition.CANCEL_RUNNING)
        elif row.exhausted:
            self._tables.move(row, Transition.FAIL)
        else:
            self._tables.move(row, Transition.RETRY, when)

    def _release(self, row: Row, delay: float, now: datetime) -> None:
        if row.cancel_requested:
            self._tables.move(row, Transition.CANCEL_RUNNING)
            return
        row.attempt_count -= 1
        if delay > 0:
            self._tables.move(row, Transition.SNOOZE, now + timedelta(seconds=delay))
        else:
            self._tables.move(row, Transition.RELEASE)

    def _cancel(self, task_id: UUID, reason: str | None) -> CancelState:
        row = self._tables.find(task_id)
        if row is None:
            return CancelState.NOT_FOUND
        if row.status is TaskStatus.RUNNING:
            row.cancel_requested = True
            row.reason = row.reason if reason is None else reason
            self._tables.board.post(Hint.CANCEL)
            return CancelState.CANCELLING
        if row.status in WAITING:
            row.reason = reason
        if self._tables.move(row, Transition.CANCEL_WAITING):
            return CancelState.CANCELLED
        return CancelState.FINISHED

    def _rescue(self, row: Row, now: datetime) -> None:
        message = f"LeaseExpired: worker {row.worker_id} stopped renewing its lease"
        row.record(Failure(kind=FailureKind.LEASE_EXPIRED, message=message), now)
        row.fencing_token += 1
        if row.cancel_requested:
            self._tables.move(row, Transition.RESCUE_CANCELLED)
        elif row.exhausted:
            self._tables.move(row, Transition.RESCUE_EXHAUSTED)
        else:
            self._tables.move(row, Transition.RESCUE)
            self._hint_ready(row, now)

    def _hint_ready(self, row: Row, now: datetime) -> None:
        if row.is_ready(now + _SOON):
            self._tables.board.post(Hint.READY)


def new_row(task: NewTask, now: datetime) -> Row:
    """Return a new task as the store holds it."""
    if task.scheduled_at is None:
        scheduled_at = now + timedelta(seconds=task.delay_seconds)
    else:
        scheduled_at = max(task.scheduled_at, now)
    return Row(
        id=task.id,
        task_type=task.task_type,
        payload=task.payload,
        queue=task.queue,
        priority=task.priority,
        scheduled_at=scheduled_at,
        timeout_seconds=task.timeout_seconds,
        max_retries=task.max_retries,
        backoff=task.backoff,
        key=task.key,
        group_key=task.group_key,
        unique_key=task.unique_key,
        created_at=now,
        status=TaskStatus.PENDING,
    )


def _by_turn(due: dict[Level, list[Row]], served: Mapping[Level, int]) -> list[tuple[Level, Row]]:
    """Weave the lanes: the k-th task of a lane has the turn `(served + k) * STEPS[lane]`."""
    turns = [
        ((served.get(lane, 0) + k) * STEPS[lane], LANES.index(lane), k, lane, row)
        for lane, rows in due.items()
        for k, row in enumerate(rows, start=1)
    ]
    turns.sort(key=lambda turn: turn[:3])
    return [(lane, row) for _, _, _, lane, row in turns]
