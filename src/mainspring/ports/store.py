"""The task store: the only truth about tasks.

Rules for every method of these ports:

* A method is one atomic step, or, where it takes several tasks, one atomic step per task. What is
  acknowledged is on disk.
* Every change of a task's state is guarded by the state it expects, and where an owner writes, by
  the fencing token. A guard that does not hold changes nothing: a normal answer, not an error.
* The store's own clock decides what is due and when leases expire.
* Errors are those of `domain.errors`: `StoreUnavailable` when it cannot be reached (nothing was
  done), `OutcomeUnknown` when the connection broke after a write was sent, `StoreReadOnly`,
  `StoreFull`. Guarded writes may be repeated after any of them.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

import msgspec

from mainspring.domain.limits import Limit
from mainspring.domain.priority import Level
from mainspring.domain.retry import Backoff
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    CancelState,
    Lease,
    LeaseRef,
    NewTask,
    Renewal,
    Rescued,
    Settlement,
    Submission,
    Task,
)
from mainspring.ports.branches import BranchState, Unplaceable
from mainspring.ports.housekeeping import Housekeeping
from mainspring.ports.parts import Divided
from mainspring.ports.queues import Queues
from mainspring.ports.schedules import ScheduleStore
from mainspring.ports.workers import Workers


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker can take now."""

    worker_id: str
    limit: int
    lease_seconds: float
    task_types: tuple[str, ...]
    """Only tasks it has a handler for; others are left for workers that do."""

    queues: tuple[str, ...] | None = None
    """None: every queue. Paused queues are never claimed from."""

    labels: tuple[str, ...] = ()
    """What the worker offers. Of the tasks that need labels it gets those whose labels are all
    among these, and of those that have just become due no more than is its share among the
    registered workers that could take them (`domain.placement`)."""

    lanes: tuple[Level, ...] | None = None
    """None: every lane. A task counts to the lane its age has brought it to."""

    served: dict[Level, int] = {}
    """`FairShare.served` of the claimer: turns continue from there, so shares stay exact."""

    freed: tuple[tuple[str, str], ...] = ()
    """Queues and group keys of which tasks ended in transactions of their handlers since the last
    claim: limits may leave room again. What is settled the store sees by itself, and a group that
    is not named here is looked at within some seconds.
    """


class Claim(msgspec.Struct, frozen=True):
    """What was claimed: those of each lane in the order of their rank, the lanes in no order. The
    claimer puts the lanes in order with its `FairShare`.
    """

    leases: list[Lease]
    next_due_seconds: float | None = None
    """Seconds until the next task this worker could take becomes due, if the claim came back
    short and one is known. Never too late by more than what became visible since."""

    is_partial: bool = False
    """A part of the store gave no answer, and may have leased tasks that are not among these."""


class TaskStore(Protocol):
    """Writes to live tasks."""

    async def submit(self, tasks: Sequence[NewTask], *, first: bool = False) -> list[Submission]:
        """Store tasks durably and answer for each in order.

        A task that is stored already under its id, in whatever state, is answered with its id and
        not made again. `first` promises that none can be: each was made for this call, and no
        other call was ever given it.

        A task whose unique key a live task of the same group has is answered with the id of that
        one. The key is free when the task has ended; who submits then makes a new task.

        All new tasks of one call become visible together. Of several submissions under one
        idempotency key, concurrent ones included, exactly one makes a task and the others are
        given its id, or `conflict` if their fingerprint differs.

        Tasks with an `origin` leave a record in the audit, stored with them or not at all.
        """
        ...

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks: at most `limit`, the lanes in proportion to their weights (an idle
        lane's share goes to the others), within a lane by rank. Each claimed task is running,
        charged one attempt, and has a higher fencing token than ever before. Concurrent claims
        never return the same task and do not wait for each other.

        Tasks with a group key, and all tasks of a queue that has a limit, are claimed only as far
        as the limits of the queue and of the group leave room; groups that have tasks waiting
        start evenly many of them, one with fewer starts first, within each priority.
        """
        ...

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        """Extend leases to now + `lease_seconds` where the token still owns the task, and answer
        for each in order. A lease that has expired but was not rescued yet is extended.
        """
        ...

    async def watch(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        """Answer as `heartbeat` does without extending anything. Cheap enough for every second."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts; True where the token still owned the task, False where it did not (and
        nothing was changed). A retry that has no attempt left goes to the dead letters; a retry
        or release of a task whose cancellation was requested ends as cancelled. Repeating a
        settlement whose answer was lost answers False and changes nothing.
        """
        ...

    async def leases_of(self, worker_id: str) -> list[LeaseRef]:
        """Return every lease that a worker has by the store's account, those that have expired but
        were not rescued yet included. Its price is the number of all running tasks.
        """
        ...

    async def progress(self, lease: LeaseRef, progress: str) -> bool:
        """Record progress (JSON text) on a running task; False when the lease is lost."""
        ...

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel waiting tasks for good and ask running ones to stop; answer in order."""
        ...

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus | None:
        """Move a waiting task to another time (None: now). Returns its status, or None when there
        is no such task; a status that is not waiting means that nothing was changed.
        """
        ...

    async def rescue(self, limit: int) -> list[Rescued]:
        """Take back tasks whose lease has expired, under a raised token: to pending, to the dead
        letters when the attempt was the last, or to cancelled when that had been asked for.
        """
        ...


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: by id, or all of a type, or all."""

    ids: tuple[UUID, ...] | None = None
    task_type: str | None = None
    queues: tuple[str, ...] | None = None
    """Only those of these queues (None: of all): what the caller may see of the ones meant."""

    after: UUID | None = None
    """Only ids above this one: a sweep in steps passes each task once, also one that is replayed
    and fails again meanwhile."""


class DeadLetters(Protocol):
    """The tasks that failed for good."""

    async def replay(
        self, which: DeadLetterFilter, limit: int, payload: str | None = None
    ) -> list[UUID]:
        """Reopen dead letters: pending, due now, attempts counted from zero again, payload
        replaced if one is given, and no token that was ever given out for them valid. Returns
        the ids that were, the lowest first; a bounded number a call, so callers go on with
        `after` until none is left.
        """
        ...

    async def discard(self, which: DeadLetterFilter, limit: int, reason: str) -> list[UUID]:
        """End dead letters as discarded, with a reason. Bounded as `replay` is."""
        ...


class Page(msgspec.Struct, frozen=True):
    """Some tasks, newest first, and where the next page begins (None: there is none)."""

    tasks: list[Task]
    cursor: str | None = None
    partial: bool = False
    """A part of the store did not answer, so its tasks are not among these."""


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list; None means any. Times compare with `created_at`."""

    status: TaskStatus | None = None
    ready: bool | None = None
    task_type: str | None = None
    queue: str | None = None
    queues: tuple[str, ...] | None = None
    """The queues that the caller may see; None: all."""

    schedule: str | None = None
    """Name of the schedule that made them."""

    group_key: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def stored_queues(self) -> tuple[str, ...] | None:
        """The queues in which a task passes the filter; None: any."""
        if self.queue is None:
            return self.queues
        is_visible = self.queues is None or self.queue in self.queues
        return (self.queue,) if is_visible else ()


class Place(msgspec.Struct, frozen=True):
    """Where a task is and who has it."""

    queue: str
    status: TaskStatus
    worker_id: str | None
    fencing_token: int
    attempt_count: int
    backoff: Backoff


class Backlog(msgspec.Struct, frozen=True):
    """What is due in a queue at one priority; the counts stop at a bound."""

    queue: str
    priority: int
    ready: int
    oldest_seconds: float
    """Of those that are not held; 0 when all are."""

    held: int = 0
    """Of those that are ready."""


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as people see it. Counts stop at `COUNT_MAX` so that they stay cheap."""

    queue: str
    paused: bool
    ready: int
    scheduled: int
    running: int
    oldest_ready_seconds: float | None
    held: int = 0
    """Of those that are ready: their group has not its turn yet, or a limit leaves no room."""

    limit: Limit | None = None
    """Of all tasks of the queue together, if there is one."""

    group_limit: Limit | None = None
    """Of each group of the queue that has none of its own, if there is one."""

    branches: tuple[BranchState, ...] = ()
    """What of it needs labels; it is among the counts above."""


COUNT_MAX: Final = 100_000
"""Counts for people stop here, so that they stay cheap at any backlog."""


class TaskReader(Protocol):
    """Reads for people. Never blocks a writer.

    Where there is a read replica, pages, queues with their counts, and the count of dead letters
    may be as they were a few seconds ago. Nothing is decided by them.
    """

    async def get(self, task_id: UUID, max_staleness: float = 0.0) -> Task | None:
        """Return a task wherever it is: live, dead letter or history. It may be as it was up to
        `max_staleness` seconds ago, which lets a read replica answer; a task that is there is found
        in any case.
        """
        ...

    async def page(self, which: TaskFilter, limit: int, cursor: str | None = None) -> Page:
        """Return a page of tasks, newest first by id. A task that exists during a whole scan
        appears exactly once in it. An unknown cursor raises `InvalidValue`.
        """
        ...

    async def statuses(self, ids: Sequence[UUID]) -> dict[UUID, TaskStatus]:
        """Return the status of those of the tasks that exist, for waiting on many at once."""
        ...

    async def queues(self) -> list[QueueState]:
        """Return every queue that a task was ever submitted to, with its branches."""
        ...

    async def unplaceable(self) -> list[Unplaceable]:
        """Return which due tasks no live worker can take for the labels that they need."""
        ...

    async def unserved(self, waited_seconds: float) -> tuple[str, ...]:
        """Return the types of ready tasks that have waited for so long and that no registered
        worker has a handler for, sorted. Looks at the oldest of each queue and priority alone:
        what nobody takes stays there.
        """
        ...

    async def dead_letter_count(self) -> int:
        """Return the number of dead letters, up to `COUNT_MAX`."""
        ...

    async def places(self, ids: Sequence[UUID]) -> dict[UUID, Place]:
        """Return where those of the tasks are that exist. A task never changes its queue, and a
        worker and token that were seen together always belong together.
        """
        ...

    async def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        ...

    async def backlogs(self, bound: int) -> list[Backlog]:
        """Return what is due, by queue and priority; what has nothing due is left out."""
        ...


class Hint(StrEnum):
    """What may have happened."""

    READY = "ready"
    """Tasks are due, or will be sooner than was known."""

    CANCEL = "cancel"
    """The cancellation of a running task was requested."""

    SCHEDULE = "schedule"
    """A schedule was made or changed, so the planner may have to act sooner than it knew."""


class Wakeups(Protocol):
    """Hints between processes. Any may be lost: whoever waits also looks for itself regularly."""

    async def wait(self, timeout_seconds: float) -> frozenset[Hint]:
        """Return the hints since the last call: at once if there are any, else when one comes,
        else empty at the time-out.
        """
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


class Store(
    TaskStore,
    DeadLetters,
    TaskReader,
    Queues,
    Workers,
    Housekeeping,
    ScheduleStore,
    Divided,
    Protocol,
):
    """Everything that one adapter of the store provides."""

    def parts(self) -> "Sequence[Store]":
        """Return the parts by number, for duties that are done in each of them by itself."""
        ...

    def wakeups(self) -> Wakeups:
        """Return a new listener for hints."""
        ...

    def announce(self) -> None:
        """Tell waiting workers that tasks are due: soon, and once for many calls. Submitting does
        this by itself for tasks that are due soon; call it after commits the store cannot see.
        """
        ...

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...
