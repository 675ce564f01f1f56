"""Watches every change of the store as it happens and holds it against the invariants.

A message begins with the number of the invariant that does not hold. What must be true is written
here a second time, from the documents and not from the code of the store: its tables, its guards
and `domain.status` may be wrong together.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.domain.placement import PATIENCE_SECONDS, base_of, can_take, labels_of
from mainspring.domain.status import TaskStatus, Transition
from mainspring.domain.task import (
    CancelState,
    Completed,
    Ending,
    Failed,
    Lease,
    NewTask,
    Released,
    Retried,
    Settlement,
    Submission,
)
from mainspring.ports.store import ClaimRequest
from simulation.network import CURRENT, Call
from simulation.places import Places

S = TaskStatus
LEGAL: Final = {
    (S.PENDING, S.RUNNING),
    (S.PENDING, S.PENDING),
    (S.PENDING, S.CANCELLED),
    (S.RETRYING, S.RUNNING),
    (S.RETRYING, S.RETRYING),
    (S.RETRYING, S.CANCELLED),
    (S.RUNNING, S.COMPLETED),
    (S.RUNNING, S.RETRYING),
    (S.RUNNING, S.PENDING),
    (S.RUNNING, S.FAILED),
    (S.RUNNING, S.CANCELLED),
    (S.FAILED, S.PENDING),
    (S.FAILED, S.DISCARDED),
}
OWNERS: Final = {
    Transition.COMPLETE,
    Transition.RETRY,
    Transition.SNOOZE,
    Transition.RELEASE,
    Transition.FAIL,
    Transition.CANCEL_RUNNING,
}
RESCUES: Final = {
    Transition.RESCUE,
    Transition.RESCUE_EXHAUSTED,
    Transition.RESCUE_CANCELLED,
}
GROUPED: Final = "c"
"""The queue whose tasks have groups: who is next there is for its gate to say."""

FINAL: Final = {S.COMPLETED, S.CANCELLED, S.DISCARDED}
DONE: Final = FINAL | {S.FAILED}


@dataclass
class Record:
    """What the audit knows of one task."""

    id: UUID
    status: TaskStatus
    due: datetime
    waits_since: datetime
    max_retries: int
    token: int = 0
    charged: int = 0
    lease_until: datetime | None = None
    has_finished: bool = False
    cancelling: bool = False
    ended: Counter[int] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
    failures: int = 0
    completed_by: int | None = None
    states: list[tuple[TaskStatus, int]] = field(default_factory=list)
    """Each state it had, with its attempts, in order."""


class AuditedTables(Tables):
    """The tables of the memory store, with someone looking over their shoulder."""

    def __init__(self, audit: "Audit", *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.audit = audit
        audit.tables = self

    def insert(self, row: Row) -> None:
        super().insert(row)
        self.audit.submitted(row, self.now())

    def lease(self, row: Row, worker_id: str, lease_seconds: float) -> None:
        super().lease(row, worker_id, lease_seconds)
        self.audit.claimed(row, self.now())

    def extend(self, row: Row, lease_seconds: float) -> None:
        super().extend(row, lease_seconds)
        self.audit.extended(row, lease_seconds, self.now())

    def move(self, row: Row, transition: Transition, scheduled_at: datetime | None = None) -> bool:
        moved = super().move(row, transition, scheduled_at)
        if moved:
            self.audit.moved(row, transition, self.now())
        return moved


class Audit:
    """The history of a run and what is wrong with it."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self.tables: AuditedTables
        self.records: dict[UUID, Record] = {}
        self.violations: list[str] = []
        self.keys: dict[str, tuple[UUID, str | None]] = {}
        self.executions: dict[tuple[UUID, int], str] = {}
        self.ran: set[tuple[UUID, int]] = set()
        self.leases: dict[tuple[UUID, int], datetime] = {}
        self.refused: set[UUID] = set()
        self.paused: set[str] = set()
        self.places = Places()
        self.counts: Counter[str] = Counter()
        self.longest_wait = 0.0
        self._trace = hashlib.sha256()

    @property
    def trace(self) -> str:
        """A digest of everything that happened, in order."""
        return self._trace.hexdigest()

    def note(self, now: datetime, *words: object) -> None:
        """Add a line to the trace."""
        self._trace.update(f"{now} {words}\n".encode())

    def check(self, holds: bool, invariant: str, task_id: object, message: str) -> None:
        if not holds:
            self.violations.append(f"{invariant}: task {task_id}: {message}")

    def submitted(self, row: Row, now: datetime) -> None:
        task = next(task for task in _argument(0) if task.id == row.id)
        self.note(now, "submit", row.id)
        self.counts["submit"] += 1
        self.check(row.id not in self.records, "I2", row.id, "was stored twice")
        record = Record(row.id, S.PENDING, _due(task, now), now, task.max_retries)
        record.states.append((S.PENDING, 0))
        self.records[row.id] = record
        self.places.submitted(row.id, task.group_key)

    def claimed(self, row: Row, now: datetime) -> None:
        request = _argument(0)
        assert isinstance(request, ClaimRequest)
        record = self._step(row, S.RUNNING, now, "claim")
        record.charged += 1
        record.lease_until = now + timedelta(seconds=request.lease_seconds)
        self.leases[row.id, row.fencing_token] = record.lease_until
        self.check(now >= record.due, "I6", row.id, f"started at {now}, due {record.due}")
        self.check(row.fencing_token > record.token, "I8", row.id, "was claimed under an old token")
        self.check(row.attempt_count == record.charged, "I11", row.id, "attempts are miscounted")
        self.check(record.charged <= record.max_retries + 1, "I11", row.id, "has too many attempts")
        self.check(row.task_type in request.task_types, "I26", row.id, "has no handler there")
        self.check(
            can_take(request.labels, request.queues, row.queue), "I26", row.id, "lacks its labels"
        )
        paused = base_of(row.queue) in self.paused
        self.check(not paused, "I17", row.id, "started in a paused queue")
        for place, taken, most in self.places.overfull(row):
            self.check(False, "I22", row.id, f"{place}: {taken} run, {most} may")
        self.counts["limit met"] += self.places.is_full(row)
        waited = (now - max(record.due, record.waits_since)).total_seconds()
        self.longest_wait = max(self.longest_wait, waited)
        record.token = row.fencing_token

    def extended(self, row: Row, lease_seconds: float, now: datetime) -> None:
        self.note(now, "extend", row.id, row.fencing_token)
        record = self.records[row.id]
        tokens = [ref.fencing_token for ref in _argument(0) if ref.id == row.id]
        self.check(record.token in tokens, "I8", row.id, "was extended under an old token")
        self.check(record.status is S.RUNNING, "I9", row.id, "was extended while it did not run")
        record.lease_until = now + timedelta(seconds=lease_seconds)
        self.leases[row.id, record.token] = record.lease_until

    def moved(self, row: Row, transition: Transition, now: datetime) -> None:
        record = self._step(row, row.status, now, transition)
        if transition in OWNERS:
            self._ended(row, record, transition, now)
        elif transition in RESCUES:
            self._rescued(row, record, now)
        elif transition is Transition.RESCHEDULE:
            record.due = max(_argument(1) or now, now)
        elif transition is Transition.REPLAY:
            self._replayed(row, record, now)
        if row.status in {S.PENDING, S.RETRYING}:
            record.waits_since = now
            self.check(not record.cancelling, "I20", row.id, "waits though it is to be cancelled")
            self.check(row.scheduled_at == record.due, "I6", row.id, "is due at another time")
        if row.status in DONE:
            record.has_finished = True
            self.check(row.completed_at == now, "I3", row.id, "has no time of its end")
        self.check(row.attempt_count == record.charged, "I11", row.id, "attempts are miscounted")

    def _step(self, row: Row, status: TaskStatus, now: datetime, what: str) -> Record:
        self.note(now, what, row.id, status, row.fencing_token, row.attempt_count)
        self.counts[what] += 1
        record = self.records[row.id]
        legal = (record.status, status) in LEGAL
        rule = "I4" if record.status in FINAL else "I5"
        self.check(legal, rule, row.id, f"{what} led from {record.status} to {status}")
        self.check(row.fencing_token >= record.token, "I8", row.id, "the token fell")
        self.places.changed(row, record.status, status)
        record.status = status
        record.states.append((status, row.attempt_count))
        return record

    def _ended(self, row: Row, record: Record, transition: Transition, now: datetime) -> None:
        settlements = [one for one in _argument(0) if one.id == row.id]
        owned = [one for one in settlements if one.fencing_token == record.token]
        self.check(bool(owned), "I8", row.id, f"{transition} was written under an old token")
        record.ended[record.token] += 1
        self.check(record.ended[record.token] == 1, "I9", row.id, "one lease ended twice")
        ending: Ending = (owned or settlements)[0].ending
        exhausted = record.charged > record.max_retries
        record.failures += isinstance(ending, Retried | Failed)
        if isinstance(ending, Retried):
            record.due = now + timedelta(seconds=ending.delay_seconds)
            cancelled = row.status is S.CANCELLED
            expected = S.FAILED if exhausted else S.RETRYING
            self.check(cancelled or row.status is expected, "I11", row.id, f"became {row.status}")
        elif isinstance(ending, Released):
            if row.status is not S.CANCELLED:
                record.charged -= 1
            if ending.delay_seconds:
                record.due = now + timedelta(seconds=ending.delay_seconds)
        elif isinstance(ending, Completed):
            record.completed_by = record.token
            did_run = (row.id, record.token) in self.ran
            self.check(did_run, "I12", row.id, "is completed, but no execution was")

    def _rescued(self, row: Row, record: Record, now: datetime) -> None:
        expired = record.lease_until is not None and record.lease_until <= now
        self.check(expired, "P5", row.id, "was taken from a worker whose lease had not ended")
        self.check(row.fencing_token > record.token, "I8", row.id, "was rescued under its token")
        record.token = row.fencing_token
        record.failures += 1
        exhausted = record.charged > record.max_retries
        allowed = {S.FAILED if exhausted else S.PENDING, S.CANCELLED}
        self.check(row.status in allowed, "I11", row.id, f"was rescued to {row.status}")

    def _replayed(self, row: Row, record: Record, now: datetime) -> None:
        record.due = now
        record.charged = 0
        record.cancelling = False
        record.token = row.fencing_token

    def answered(self, call: Call, answer: Any) -> None:
        """Hold an answer of the store against what it did."""
        match call.name:
            case "claim":
                self._passed_over(call.arguments[0], answer.leases)
            case "settle":
                for settlement, accepted in zip(call.arguments[0], answer, strict=True):
                    self._settled(settlement, accepted)
            case "submit":
                for task, submission in zip(call.arguments[0], answer, strict=True):
                    self._stored(task, submission)
            case "cancel":
                self._cancelled(call.arguments[0], answer)
            case "pause":
                self.paused.add(call.arguments[0])
            case "resume":
                self.paused.discard(call.arguments[0])

    def _settled(self, settlement: Settlement, accepted: bool) -> None:
        record = self.records[settlement.id]
        ended = record.ended[settlement.fencing_token] > 0
        self.check(ended or not accepted, "I20", record.id, "an ending was accepted and not kept")
        record.accepted[settlement.fencing_token] += accepted
        once = record.accepted[settlement.fencing_token] <= 1
        self.check(once, "I20", record.id, "two endings of one lease were accepted")

    def _cancelled(self, ids: Sequence[UUID], states: Sequence[CancelState]) -> None:
        for task_id, state in zip(ids, states, strict=True):
            if state is CancelState.CANCELLING:
                self.records[task_id].cancelling = True

    def _stored(self, task: NewTask, submission: Submission) -> None:
        self.check(submission.id in self.records, "I1", submission.id, "was answered, not stored")
        if task.key is None:
            return
        task_id, fingerprint = self.keys.setdefault(task.key, (submission.id, task.fingerprint))
        self.check(submission.id == task_id, "I21", task_id, f"key {task.key} made two tasks")
        conflict = fingerprint != task.fingerprint
        self.check(submission.conflict is conflict, "I21", task_id, "a conflict was not told")
        if conflict:
            self.refused.add(task.id)

    def _passed_over(self, request: ClaimRequest, leases: list[Lease]) -> None:
        """Within the lane and the claim nothing of a better rank that was due was left behind."""
        if not leases:
            return
        now = self.tables.now()
        worst: dict[str, tuple[datetime, int]] = {}
        for lease in leases:
            key = lease.lane
            worst[key] = max(worst.get(key, lease_rank(lease)), lease_rank(lease))
        for row in self.tables.live.values():
            if (
                row.is_ready(now)
                and row.task_type in request.task_types
                and base_of(row.queue) not in {*self.paused, GROUPED}
                and can_take(request.labels, request.queues, row.queue)
                and not self._is_left_to_others(row, now)
            ):
                lane = self.lane(row, now)
                passed = lane in worst and row_rank(row) < worst[lane]
                self.check(not passed, "I26", row.id, f"was passed over in lane {lane}")

    def _is_left_to_others(self, row: Row, now: datetime) -> bool:
        waited = (now - row.scheduled_at).total_seconds()
        return bool(labels_of(row.queue)) and waited < PATIENCE_SECONDS

    def lane(self, row: Row, now: datetime) -> str:
        """The lane of a waiting task by the rules of ADR 5."""
        waited = (now - row.scheduled_at).total_seconds()
        return lane_by_the_book(row.priority, waited, self.limit_seconds)

    def executing(self, process: str, lease: Lease, now: datetime) -> None:
        """A handler starts."""
        record = self.records[lease.id]
        self.note(now, "execute", process, lease.id, lease.fencing_token)
        self.check(now >= record.due or record.status is not S.RUNNING, "I6", lease.id, "early")
        for (task_id, token), other in self.executions.items():
            if task_id == lease.id:
                until = self.leases[task_id, token]
                self.check(until <= now, "I10", lease.id, f"still runs on {other}")
        self.executions[lease.id, lease.fencing_token] = process

    def executed(self, lease: Lease, now: datetime, how: str) -> None:
        """A handler ends, whatever way."""
        self.note(now, "executed", lease.id, lease.fencing_token, how)
        self.executions.pop((lease.id, lease.fencing_token), None)
        if how == "done":
            self.ran.add((lease.id, lease.fencing_token))

    def died(self, process: str) -> None:
        """What a process executed is over when it is dead."""
        for key in [key for key, name in self.executions.items() if name == process]:
            del self.executions[key]


def _argument(position: int) -> Any:
    call = CURRENT.get()
    assert call is not None
    return call.arguments[position]


def _due(task: NewTask, now: datetime) -> datetime:
    if task.scheduled_at is None:
        return now + timedelta(seconds=task.delay_seconds)
    return max(task.scheduled_at, now)


def lease_rank(lease: Lease) -> tuple[datetime, int]:
    return lease.scheduled_at + timedelta(minutes=10 * lease.priority), lease.id.int


def row_rank(row: Row) -> tuple[datetime, int]:
    return row.scheduled_at + timedelta(minutes=10 * row.priority), row.id.int


def lane_by_the_book(priority: int, waited: float, limit: float) -> str:
    """Priority 0, 1-3, 4-6 and 7-10; up by age, or after the limit in one level."""
    lanes = (("critical", 0), ("high", 3), ("normal", 6), ("low", 10))
    at = next(index for index, (_, worst) in enumerate(lanes) if priority <= worst)
    entered = 0.0
    while at > 0:
        by_age = (priority - lanes[at - 1][1]) * 600.0
        entered = min(by_age, entered + limit)
        if waited < entered:
            break
        at -= 1
    return lanes[at][0]
