"""Between rows and the types of the domain."""

from typing import Any, Final

import msgspec

from mainspring.adapters.postgres.pool import Record
from mainspring.domain.placement import Load, base_of, labels_of
from mainspring.domain.priority import LANES, level_of
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Attempt, Lease, Task, TickRef, schedule_type

_DEFAULT_BACKOFF: Final = Backoff()
_ATTEMPTS: Final = msgspec.json.Decoder(tuple[Attempt, ...])


def lease_of(row: Record) -> Lease:
    """Read what the claim returned of one task."""
    (
        task_id, lane, token, task_type, payload, queue, priority, scheduled_at, created_at,
        started_at, attempt, max_retries, timeout, backoff_kind, backoff, crash_count,
        schedule, nominal_at, previous_nominal_at, group_key,
    ) = row[:20]  # fmt: skip
    return Lease(
        id=task_id,
        fencing_token=token,
        task_type=task_type,
        payload=payload,
        queue=base_of(queue),
        priority=priority,
        lane=LANES[lane - 1],
        scheduled_at=scheduled_at,
        created_at=created_at,
        started_at=started_at,
        attempt=attempt,
        max_retries=max_retries,
        timeout_seconds=timeout,
        backoff=backoff_of(backoff_kind, backoff),
        crash_count=crash_count,
        tick=None if schedule is None else TickRef(schedule, nominal_at, previous_nominal_at),
        group_key=group_key,
    )


def load_of(row: Record) -> Load:
    """Read how much of a worker is in use."""
    worker_id, labels, queues, task_types, slots, running = row
    served = None if queues is None else tuple(queues)
    return Load(worker_id, tuple(labels), served, tuple(task_types), slots, running)


def task_of(row: Record) -> Task:
    """Read a task as people see it, from any of the three tables."""
    attempts = () if row["attempts"] is None else _ATTEMPTS.decode(row["attempts"])
    return Task(
        task_id=row["id"],
        task_type=row["task_type"],
        payload=msgspec.Raw(row["payload"]),
        queue=base_of(row["queue"]),
        labels=labels_of(row["queue"]),
        placement=row["placement"],
        group_key=row["group_key"] or None,
        unique_key=row["unique_key"],
        held=row["held"],
        priority=row["priority"],
        level=level_of(row["priority"]),
        status=TaskStatus(row["status"]),
        ready=row["ready"],
        schedule_type=schedule_type(row["schedule"]),
        scheduled_at=row["scheduled_at"],
        timeout=row["timeout_seconds"],
        max_retries=row["max_retries"],
        retry_backoff=row["backoff_kind"],
        attempt_count=row["attempt_count"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        worker_id=row["worker_id"],
        lease_expires_at=row["lease_expires_at"],
        fencing_token=row["fencing_token"],
        cancel_requested=row["cancel_requested"],
        last_error=attempts[-1].error if attempts else None,
        reason=row["reason"],
        result=_raw(row["result"]),
        progress=_raw(row["progress"]),
        key=row["key"],
        schedule=row["schedule"],
        nominal_at=row["nominal_at"],
        previous_nominal_at=row["previous_nominal_at"],
        attempts=attempts,
    )


def backoff_columns(backoff: Backoff) -> tuple[str, float, float, float] | None:
    """Return how a back-off is stored; None is the default."""
    if backoff == _DEFAULT_BACKOFF:
        return None
    return backoff.kind.value, backoff.base_seconds, backoff.multiplier, backoff.max_seconds


def backoff_of(kind: str, numbers: list[float] | None) -> Backoff:
    """Read a back-off; no numbers are the default."""
    if numbers is None:
        return _DEFAULT_BACKOFF
    return Backoff(BackoffKind(kind), *numbers)


def _raw(text: Any) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text)
