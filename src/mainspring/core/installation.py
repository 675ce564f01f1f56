"""An installation as people work with it: on its task store, or through its API from elsewhere.

`core.session.Session` is one on the store; `mainspring.client.installation` is one behind an API.
Both raise the same errors, so whoever uses it need not know where it is.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import BackfillResult, Change, OnConflict
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, NewTask, Submission, Task
from mainspring.ports.schedules import Tick
from mainspring.ports.store import (
    DeadLetterFilter,
    QueueState,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState


class SubmissionVerbs(Protocol):
    """See `core.submission.Submissions`."""

    async def submit(self, task: NewTask) -> Submission:
        """Store one task."""
        ...

    async def attempt_many(self, tasks: Sequence[NewTask]) -> list[Submission | BaseException]:
        """Store tasks, and answer for each in order."""
        ...


class WaitingVerbs(Protocol):
    """See `core.waiting.Waiting`."""

    async def wait(self, task_id: UUID, timeout: float | None = None) -> TaskStatus:
        """Return the terminal status of a task once it has one."""
        ...


class LifecycleVerbs(Protocol):
    """See `core.lifecycle.Lifecycle`."""

    async def get(self, task_id: UUID) -> Task:
        """Return a task."""
        ...

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel tasks and answer for each in order."""
        ...

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus:
        """Move a waiting task to another time, or to now."""
        ...

    async def replay(self, which: DeadLetterFilter, payload: str | None = None) -> list[UUID]:
        """Reopen dead letters."""
        ...

    async def discard(self, which: DeadLetterFilter, reason: str) -> list[UUID]:
        """End dead letters as discarded."""
        ...

    def scan(self, which: TaskFilter, limit: int | None = None) -> AsyncIterator[Task]:
        """Yield tasks, newest first."""
        ...

    async def queues(self) -> list[QueueState]:
        """Return every queue."""
        ...

    async def pause(self, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        ...

    async def resume(self, queue: str) -> None:
        """Let the tasks of a queue start again."""
        ...

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both."""
        ...

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or none."""
        ...

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue."""
        ...

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are alive."""
        ...


class ScheduleVerbs(Protocol):
    """See `core.schedules.Schedules`."""

    async def create(
        self, name: str, change: Change, on_conflict: OnConflict = OnConflict.ERROR
    ) -> Schedule:
        """Make a schedule."""
        ...

    async def update(self, name: str, change: Change) -> Schedule:
        """Change a schedule."""
        ...

    async def get(self, name: str) -> Schedule:
        """Return a schedule."""
        ...

    async def all(self) -> list[Schedule]:
        """Return all schedules."""
        ...

    async def pause(self, name: str, note: str = "") -> Schedule:
        """Let a schedule make no more runs."""
        ...

    async def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> Schedule:
        """Let a schedule go on."""
        ...

    async def delete(self, name: str) -> None:
        """Forget a schedule."""
        ...

    async def trigger(self, name: str, overlap: str | None = None) -> Tick:
        """Run a schedule now."""
        ...

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int = 1000, dry_run: bool = False
    ) -> BackfillResult:
        """Run nominal times of the past now."""
        ...

    async def history(
        self, name: str, limit: int = 50, before: datetime | None = None
    ) -> list[Tick]:
        """Return what became of the nominal times of a schedule."""
        ...


class Installation(Protocol):
    """Everything that the commands for people do."""

    @property
    def submissions(self) -> SubmissionVerbs:
        """Submitting."""
        ...

    @property
    def waiting(self) -> WaitingVerbs:
        """Waiting for tasks to end."""
        ...

    @property
    def lifecycle(self) -> LifecycleVerbs:
        """Tasks, dead letters, queues and workers."""
        ...

    @property
    def schedules(self) -> ScheduleVerbs:
        """Schedules."""
        ...

    def missing(self) -> tuple[str, ...]:
        """Return what did not answer, so that it is missing from what was listed."""
        ...

    async def close(self) -> None:
        """Release what is open. Safe to call twice."""
        ...
