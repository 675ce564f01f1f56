"""One task as the memory store holds it, and the shapes in which it leaves the store."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import msgspec

from mainspring.domain.placement import base_of, labels_of
from mainspring.domain.priority import Level, level_of
from mainspring.domain.retry import Backoff
from mainspring.domain.status import WAITING, TaskStatus, Transition, apply
from mainspring.domain.task import (
    ATTEMPTS_KEPT,
    Attempt,
    Failure,
    FailureKind,
    Lease,
    Task,
    TickRef,
    schedule_type,
)


@dataclass(slots=True, kw_only=True)
class Row:
    """Everything that is known of a task. It never leaves the store: callers get copies."""

    id: UUID
    task_type: str
    payload: str
    queue: str
    priority: int
    scheduled_at: datetime
    timeout_seconds: float
    max_retries: int
    backoff: Backoff
    key: str | None
    created_at: datetime
    status: TaskStatus
    group_key: str | None = None
    unique_key: str | None = None
    is_admitted: bool = True
    """Whether it may be claimed when it is due; what stands in line at a gate may not."""

    attempt_count: int = 0
    crash_count: int = 0
    tick: TickRef | None = None
    fencing_token: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    worker_id: str | None = None
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    reason: str | None = None
    last_error: str | None = None
    result: str | None = None
    progress: str | None = None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def unique(self) -> tuple[str, str] | None:
        """What no other live task may have."""
        return None if self.unique_key is None else (self.group_key or "", self.unique_key)

    @property
    def exhausted(self) -> bool:
        """The attempts that were charged are all that the task may have."""
        return self.attempt_count > self.max_retries

    def take(self, transition: Transition) -> None:
        """Change the status as the table of transitions says."""
        self.status = apply(transition, self.status)

    def lease_to(self, worker_id: str, now: datetime, expires_at: datetime) -> None:
        """Start an attempt: charge it and raise the token."""
        self.take(Transition.CLAIM)
        self.attempt_count += 1
        self.fencing_token += 1
        self.worker_id = worker_id
        self.started_at = now
        self.lease_expires_at = expires_at

    def end_lease(self) -> None:
        """Let nobody own the task."""
        self.worker_id = None
        self.lease_expires_at = None

    def _counts_as_crash(self, kind: FailureKind) -> bool:
        """A lease ends with its whole worker, so only the second time tells of the task."""
        before = {attempt.kind for attempt in self.attempts}
        return kind is FailureKind.CRASHED or (kind is FailureKind.LEASE_EXPIRED and kind in before)

    def record(self, failure: Failure, now: datetime) -> None:
        """Keep the failure of the attempt that is running."""
        self.last_error = failure.message
        self.crash_count += self._counts_as_crash(failure.kind)
        self.attempts.append(
            Attempt(
                attempt=self.attempt_count,
                kind=failure.kind,
                error=failure.message,
                traceback=failure.traceback,
                worker_id=self.worker_id,
                started_at=self.started_at,
                ended_at=now,
            )
        )
        if len(self.attempts) > ATTEMPTS_KEPT:
            del self.attempts[1]

    def lease(self, lane: Level, started_at: datetime) -> Lease:
        """Return what a worker gets to run the attempt."""
        return Lease(
            id=self.id,
            fencing_token=self.fencing_token,
            task_type=self.task_type,
            payload=self.payload,
            queue=base_of(self.queue),
            priority=self.priority,
            lane=lane,
            scheduled_at=self.scheduled_at,
            created_at=self.created_at,
            started_at=started_at,
            attempt=self.attempt_count,
            max_retries=self.max_retries,
            timeout_seconds=self.timeout_seconds,
            backoff=self.backoff,
            crash_count=self.crash_count,
            tick=self.tick,
            group_key=self.group_key,
        )

    def is_ready(self, now: datetime) -> bool:
        """Say whether the task waits and is due."""
        return self.status in WAITING and self.scheduled_at <= now

    def is_held(self, now: datetime) -> bool:
        """Say whether the task is due and has to be admitted first."""
        return self.is_ready(now) and not self.is_admitted

    def task(self, now: datetime) -> Task:
        """Return the task as people see it."""
        tick = self.tick
        return Task(
            task_id=self.id,
            task_type=self.task_type,
            payload=msgspec.Raw(self.payload),
            queue=base_of(self.queue),
            labels=labels_of(self.queue),
            group_key=self.group_key or None,
            unique_key=self.unique_key,
            held=self.is_held(now),
            priority=self.priority,
            level=level_of(self.priority),
            status=self.status,
            ready=self.is_ready(now),
            schedule_type=schedule_type(None if tick is None else tick.schedule),
            scheduled_at=self.scheduled_at,
            timeout=self.timeout_seconds,
            max_retries=self.max_retries,
            retry_backoff=self.backoff.kind,
            attempt_count=self.attempt_count,
            created_at=self.created_at,
            started_at=self.started_at,
            completed_at=self.completed_at,
            worker_id=self.worker_id,
            lease_expires_at=self.lease_expires_at,
            fencing_token=self.fencing_token,
            cancel_requested=self.cancel_requested,
            last_error=self.last_error,
            reason=self.reason,
            result=_raw(self.result),
            progress=_raw(self.progress),
            key=self.key,
            schedule=None if tick is None else tick.schedule,
            nominal_at=None if tick is None else tick.nominal_at,
            previous_nominal_at=None if tick is None else tick.previous_nominal_at,
            attempts=tuple(self.attempts),
        )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text)
