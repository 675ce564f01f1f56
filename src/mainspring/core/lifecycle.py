"""What people do with tasks after submission: look, cancel, move, replay, discard.

The store answers a guard that does not hold with a value; here it becomes an error with a sentence
where someone asked for one task, so that all callers say the same.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from mainspring.domain.errors import (
    InvalidValue,
    NotADeadLetter,
    QueueNotFound,
    TaskAlreadyFinished,
    TaskNotFound,
    TaskNotWaiting,
    UniqueKeyTaken,
)
from mainspring.domain.limits import Limit, QueueLimits, check_group_key
from mainspring.domain.namespaces import plain_key
from mainspring.domain.status import WAITING, TaskStatus
from mainspring.domain.task import CancelState, Task
from mainspring.domain.values import check_instant, check_name, check_seconds, clip_text, shown
from mainspring.ports.store import (
    DeadLetterFilter,
    QueueState,
    Store,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState

REASON_BYTES_MAX: Final = 1000
STALENESS_SECONDS_MAX: Final = 86400.0
"""Who accepts an answer of any age gets one of this, at most."""

PAGE_TASKS: Final = 200
SWEEP_TASKS: Final = 500
"""Dead letters replayed or discarded in one statement."""


def task_id_of(text: object, field: str = "task_id") -> UUID:
    """Return the task id that someone wrote, or raise `InvalidValue`."""
    if isinstance(text, UUID):
        return text
    try:
        return UUID(text if isinstance(text, str) else "")
    except ValueError:
        message = f"{field} is {shown(text)}; a task id is a UUID such as the one submit prints"
        raise InvalidValue(message, field=field) from None


class Lifecycle:
    """Use cases on stored tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, task_id: UUID, max_staleness: float = 0.0) -> Task:
        """Return a task, or raise `TaskNotFound`. It may be as it was so many seconds ago."""
        bound = check_seconds(max_staleness, "max_staleness", STALENESS_SECONDS_MAX, zero=True)
        task = await self._store.get(task_id, bound)
        if task is None:
            raise _no_task(task_id)
        return task

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel tasks and answer for each in order; one that is running is asked to stop."""
        return await self._store.cancel(ids, _reason(reason))

    async def cancel_one(self, task_id: UUID, reason: str | None = None) -> CancelState:
        """Cancel a task: `CANCELLED` if it will never start, `CANCELLING` if it is running.

        Raises `TaskNotFound` or `TaskAlreadyFinished`.
        """
        (state,) = await self.cancel([task_id], reason)
        if state is CancelState.NOT_FOUND:
            raise _no_task(task_id)
        if state is CancelState.FINISHED:
            raise TaskAlreadyFinished(f"task {task_id} has ended, so it cannot be cancelled")
        return state

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus:
        """Move a waiting task to another time, or to now; raises `TaskNotWaiting`."""
        moment = None if at is None else check_instant(at, "at")
        status = await self._store.reschedule(task_id, moment)
        if status is None:
            raise _no_task(task_id)
        if status not in WAITING:
            message = f"task {task_id} is {status}; only a task that waits can be moved in time"
            raise TaskNotWaiting(message)
        return status

    async def replay(self, which: DeadLetterFilter, payload: str | None = None) -> list[UUID]:
        """Reopen all the dead letters meant but those whose unique key a live task has; raises
        when a named one is such, or is not a dead letter.
        """
        return await self._sweep(which, lambda part: self._store.replay(part, SWEEP_TASKS, payload))

    async def discard(self, which: DeadLetterFilter, reason: str) -> list[UUID]:
        """End all the dead letters meant as discarded; raises as `replay` does."""
        text = _reason(reason)
        if not text:
            message = "reason is empty; say why, so that it can be understood later"
            raise InvalidValue(message, field="reason")
        return await self._sweep(which, lambda part: self._store.discard(part, SWEEP_TASKS, text))

    async def scan(self, which: TaskFilter, limit: int | None = None) -> AsyncIterator[Task]:
        """Yield tasks, newest first, page by page."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE_TASKS if left is None else min(PAGE_TASKS, left)
            page = await self._store.page(which, size, cursor)
            for task in page.tasks:
                yield task
            cursor = page.cursor
            if cursor is None:
                return
            left = None if left is None else left - len(page.tasks)

    async def queues(self) -> list[QueueState]:
        """Return every queue that a task was ever submitted to, with its counts."""
        return await self._store.queues()

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are registered."""
        return await self._store.workers()

    async def pause(self, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        await self._store.pause(check_name(queue, "queue"))

    async def resume(self, queue: str) -> None:
        """Let the tasks of a queue start again; raises `QueueNotFound`."""
        check_name(queue, "queue")
        if queue not in await self._store.queue_names():
            raise QueueNotFound(f"there is no queue {queue!r}; see `mainspring queues list`")
        await self._store.resume(queue)

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both (None: as it is)."""
        await self._store.set_limits(check_name(queue, "queue"), whole=whole, group=group)

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or (None) that of every group again."""
        check_name(queue, "queue")
        await self._store.set_group_limit(queue, check_group_key(group_key), limit)

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue; none where nobody set any."""
        return await self._store.limits(check_name(queue, "queue"))

    async def _sweep(
        self,
        which: DeadLetterFilter,
        step: Callable[[DeadLetterFilter], Awaitable[list[UUID]]],
    ) -> list[UUID]:
        done: dict[UUID, None] = {}
        for part in _parts(which):
            rest = part
            while ids := await step(rest):
                done |= dict.fromkeys(ids)
                rest = msgspec.structs.replace(part, after=ids[-1])
        await self._check_swept(which, done)
        return list(done)

    async def _check_swept(self, which: DeadLetterFilter, done: Collection[UUID]) -> None:
        missing = sorted(set(which.ids or ()) - set(done))
        if not missing:
            return
        statuses = await self._store.statuses(missing)
        first = missing[0]
        others = f"; {len(done)} of {len(which.ids or ())} were done" if done else ""
        if first not in statuses:
            raise _no_task(first, others)
        task = await self._store.get(first) if statuses[first] is TaskStatus.FAILED else None
        if task is not None and task.unique_key is not None:
            message = (
                f"task {first} has the unique key {shown(plain_key(task.unique_key))}, which a "
                "live task has now, so it stays a dead letter; replay it when that one has ended, "
                f"or discard it{others}"
            )
            raise UniqueKeyTaken(message, field="task_id")
        message = f"task {first} is {statuses[first]}, so it is not among the dead letters{others}"
        raise NotADeadLetter(message)


def _parts(which: DeadLetterFilter) -> list[DeadLetterFilter]:
    """Split a long list of ids, so that each statement is bounded."""
    if which.ids is None:
        return [which]
    ids = which.ids
    return [
        msgspec.structs.replace(which, ids=ids[at : at + SWEEP_TASKS])
        for at in range(0, len(ids), SWEEP_TASKS)
    ]


def _reason(reason: str | None) -> str | None:
    return None if reason is None else clip_text(reason.strip(), REASON_BYTES_MAX)


def _no_task(task_id: UUID, more: str = "") -> TaskNotFound:
    return TaskNotFound(f"there is no task {task_id}{more}", field="task_id")
