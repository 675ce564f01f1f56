"""The task in each of the shapes it has on its way: new, leased, settled, and as people see it.

Payloads, results and progress are JSON text here: only the two ends, the caller and the handler,
look inside them. Text that reached these types has been checked (`values`), so it can be stored.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec

from mainspring.domain.priority import DEFAULT, Level
from mainspring.domain.retry import Backoff
from mainspring.domain.status import TaskStatus
from mainspring.domain.webhooks import Webhook

DEFAULT_QUEUE: Final = "default"
DEFAULT_TIMEOUT_SECONDS: Final = 300.0
DEFAULT_MAX_RETRIES: Final = 3
ATTEMPTS_KEPT: Final = 20
"""Failed attempts that are kept with a task; the oldest after the first go when there are more."""


class TickRef(msgspec.Struct, frozen=True, array_like=True):
    """Which nominal time of which schedule a task was made for."""

    schedule: str
    nominal_at: datetime
    previous_nominal_at: datetime | None = None
    """The nominal time before: the run covers the data from it up to `nominal_at`."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Who hands tasks in through an API, and how: what the audit says of them."""

    actor: str
    namespace: str
    action: str
    address: str = ""
    request_id: str = ""


# `gc=False`: thousands of them are made at a time, and none can be part of a cycle, so the garbage
# collector need not go through them again and again.
class NewTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked submission. It runs at `scheduled_at`, or `delay_seconds` after the store's now.

    A `scheduled_at` in the past means now: age counts from the submission.
    """

    id: UUID
    task_type: str
    payload: str = "{}"
    queue: str = DEFAULT_QUEUE
    """The queue as it is stored: with its namespace, and with the labels that the task needs
    (`namespaces.stored_queue`, `placement.branch_of`)."""

    priority: int = DEFAULT
    scheduled_at: datetime | None = None
    delay_seconds: float = 0.0
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    backoff: Backoff = Backoff()
    key: str | None = None
    fingerprint: str | None = None
    """Digest of what was asked for; two submissions of one key must have the same."""

    group_key: str | None = None
    """What it shares starts and limits by with other tasks of its queue (`limits`)."""

    unique_key: str | None = None
    """While a task with this key and the same group key is live, none is made beside it."""

    webhook: Webhook | None = None
    """Who is told when it ends. A task that is stored already keeps what it has."""

    tick: TickRef | None = None
    """Set by the planner of schedules alone; `TaskStore.submit` does not store it."""

    origin: Origin | None = None
    """Set for what comes through an API: its record is in the audit exactly if the task is stored.
    What one actor hands in from one address at the same time shares a record."""


class Submission(msgspec.Struct, frozen=True, gc=False):
    """What became of one submission of a batch."""

    id: UUID
    """The task's id: the one given, or that of the task submitted before under the same
    idempotency key, or of the live one with the same unique key."""

    is_new: bool = True
    conflict: bool = False
    """The key was used before for a different task; nothing was stored."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A claimed task: everything a worker needs to run one attempt of it."""

    id: UUID
    fencing_token: int
    task_type: str
    payload: str
    queue: str
    priority: int
    lane: Level
    scheduled_at: datetime
    created_at: datetime
    started_at: datetime
    attempt: int
    """Number of this attempt, from 1."""

    max_retries: int
    timeout_seconds: float
    backoff: Backoff
    crash_count: int
    """Earlier attempts that ended with the death of their process; above 0 it runs alone. A lost
    lease counts from the second time on: the first may be the fault of anything in the worker."""

    tick: TickRef | None = None
    """The schedule that made it, if one did."""

    group_key: str | None = None
    """The group that it counts to; '' for one without a group key in a queue that has a limit."""


class LeaseRef(msgspec.Struct, frozen=True):
    """Names one lease: the task and the fencing token under which its holder owns it."""

    id: UUID
    fencing_token: int


class Renewal(msgspec.Struct, frozen=True):
    """The answer to one heartbeat."""

    id: UUID
    fencing_token: int
    held: bool
    """False: the lease is lost, whatever the holder still writes will be refused."""

    cancel_requested: bool = False


class FailureKind(StrEnum):
    """Why an attempt did not complete; the `kind` of an entry in a task's attempts."""

    ERROR = "error"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    LEASE_EXPIRED = "lease_expired"
    INVALID_PAYLOAD = "invalid_payload"
    INVALID_RESULT = "invalid_result"
    FINAL = "final"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed, in text that can be stored."""

    kind: FailureKind
    message: str
    """`ExceptionType: message`, on one line."""

    traceback: str = ""


class Completed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempt succeeded. `result` is JSON text, or None for no result."""

    result: str | None = None


class Retried(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempt failed and the task shall run again after a delay."""

    failure: Failure
    delay_seconds: float


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempt failed for good: to the dead letters."""

    failure: Failure


class Cancelled(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempt ended because the task was cancelled, from outside or by its handler."""

    reason: str | None = None


class Released(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The attempt is handed back uncharged, to run again after a delay (0: at once, same age)."""

    delay_seconds: float = 0.0


class CommittedElsewhere(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The handler says that it completed the task in a transaction of its own
    (`TaskContext.complete_in`). The worker checks; it is never sent to the store.
    """


Ending = Completed | Retried | Failed | Cancelled | Released


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The end of one attempt, as its holder reports it. Refused when the lease was lost."""

    id: UUID
    fencing_token: int
    ending: Ending


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One finished attempt that did not complete, as it is kept with the task."""

    attempt: int
    kind: FailureKind
    error: str
    traceback: str = ""
    worker_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as people see it."""

    task_id: UUID
    task_type: str
    payload: msgspec.Raw
    queue: str
    labels: tuple[str, ...] = ()
    """What its worker has to offer."""

    placement: str | None = None
    """`no_worker` when it is due and no live worker that has a handler for it offers its labels."""

    group_key: str | None = None
    unique_key: str | None = None
    held: bool = False
    """Due, but its group has not its turn yet or a limit leaves no room."""

    priority: int
    level: Level
    status: TaskStatus
    ready: bool
    """Waiting and due: a worker may take it now. Derived when it is read."""

    schedule_type: str
    """`recurring` if a schedule made it, else `one_time`."""

    scheduled_at: datetime
    timeout: float
    max_retries: int
    retry_backoff: str
    attempt_count: int
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    worker_id: str | None = None
    lease_expires_at: datetime | None = None
    fencing_token: int = 0
    cancel_requested: bool = False
    last_error: str | None = None
    reason: str | None = None
    """Why it was cancelled or discarded, if someone said."""

    result: msgspec.Raw | None = None
    progress: msgspec.Raw | None = None
    key: str | None = None
    schedule: str | None = None
    """Name of the schedule that made it."""

    nominal_at: datetime | None = None
    """The time of the schedule that it was made for, whenever it really runs."""

    previous_nominal_at: datetime | None = None
    """The time before that; the run covers the data in between."""

    attempts: tuple[Attempt, ...] = ()


def schedule_type(schedule: str | None) -> str:
    """Return the word for whether a schedule made a task."""
    return "one_time" if schedule is None else "recurring"


class CancelState(StrEnum):
    """The answer to a cancellation of one task."""

    CANCELLED = "cancelled"
    """It was waiting and will never start."""

    CANCELLING = "cancelling"
    """It is running; its handler is being told. It ends as cancelled unless it finishes first."""

    FINISHED = "finished"
    """It had reached a terminal state before."""

    NOT_FOUND = "not_found"


class Rescued(msgspec.Struct, frozen=True):
    """A task whose lease expired, and the state it was put in."""

    id: UUID
    status: TaskStatus
