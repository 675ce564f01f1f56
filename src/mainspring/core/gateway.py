"""What the API offers, for every transport: each verb with who asks as its first argument.

Everything goes through here, so nothing is reachable without a scope, and a task of another
namespace is the same as one that does not exist. A task never changes its queue, and a queue never
its namespace, so what was seen of that before a write still holds when it happens.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from mainspring.core.access import Principal
from mainspring.core.changes import Changes
from mainspring.core.intake import Intake
from mainspring.core.patience import within
from mainspring.core.quotas import Quotas
from mainspring.core.session import Session
from mainspring.core.shedding import Shedder
from mainspring.core.submission import raise_conflict
from mainspring.domain.errors import (
    InvalidValue,
    KeyConflict,
    MainspringError,
    QueueNotFound,
    QuotaExceeded,
    StoreUnavailable,
    TaskNotFound,
)
from mainspring.domain.limits import Limit, QueueLimits, check_group_key
from mainspring.domain.namespaces import (
    DEFAULT_NAMESPACE,
    namespace_of,
    plain_key,
    plain_queue,
    stored_queue,
)
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, NewTask, Origin, Submission, Task
from mainspring.domain.values import check_name, shown
from mainspring.ports.access import Scope
from mainspring.ports.branches import Unplaceable
from mainspring.ports.store import (
    DeadLetterFilter,
    Page,
    QueueState,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState

SUBMIT_SECONDS: Final = 3.9
"""A caller over the network asks again by itself, so it is told soon."""

LEAST_SECONDS: Final = 0.2
"""What each part of a submission is given in any case."""

Outcome = Submission | MainspringError
"""What became of one task of a batch."""


class Gateway:
    """The verbs of the API on one session."""

    def __init__(self, session: Session, intake: Intake, quotas: Quotas, shedder: Shedder) -> None:
        self._session = session
        self._store = session.store
        self._intake = intake
        self._quotas = quotas
        self.shedder = shedder
        self.changes = Changes(session.store, session.clock)

    async def submit(
        self,
        who: Principal,
        given: object,
        key: str | None = None,
        origin: Origin | None = None,
        seconds: float = SUBMIT_SECONDS,
    ) -> tuple[NewTask, Submission]:
        """Store one task; raises `InvalidValue`, `KeyConflict`, `QuotaExceeded`, `Overloaded`, and
        within `seconds` `StoreUnavailable` or `OutcomeUnknown`.

        With an origin its record in the audit is stored in the same transaction.
        """
        who.require(Scope.SUBMIT)
        task = self._intake.build(who, given, key=key, origin=origin)
        self.shedder.admit(task.priority)
        left = await self._take(who.namespace, 1, seconds)
        stored = await self._session.submissions.submit(task, left, first=True)
        if stored.conflict:
            raise_conflict(_as_given(task), stored)
        return task, stored

    async def submit_batch(
        self,
        who: Principal,
        given: Sequence[object | MainspringError],
        origin: Origin | None = None,
        seconds: float = SUBMIT_SECONDS,
    ) -> list[Outcome]:
        """Store many tasks, each on its own; what could not be read comes as its error, and so does
        what the store did not answer within `seconds`.

        With an origin there is a record in the audit for each part of the batch that is stored at
        once, in the same transaction.
        """
        who.require(Scope.SUBMIT)
        began = self._session.clock.monotonic()
        outcomes: list[Outcome | NewTask] = []
        for place, item in enumerate(given):
            try:
                if isinstance(item, MainspringError):
                    raise item
                task = self._intake.build(who, item, prefix=f"tasks[{place}].", origin=origin)
                self.shedder.admit(task.priority)
                outcomes.append(task)
            except MainspringError as error:
                outcomes.append(error)
        tasks = [outcome for outcome in outcomes if isinstance(outcome, NewTask)]
        try:
            spent = self._session.clock.monotonic() - began
            left = await self._take(who.namespace, len(tasks), seconds - spent)
        except QuotaExceeded as error:
            return [error if isinstance(one, NewTask) else one for one in outcomes]
        answers = iter(await self._session.submissions.attempt_many(tasks, left, first=True))
        return [
            _outcome(one, next(answers)) if isinstance(one, NewTask) else one for one in outcomes
        ]

    async def task(
        self,
        who: Principal,
        task_id: UUID,
        scope: Scope = Scope.READ,
        max_staleness: float = 0.0,
    ) -> Task:
        """Return a task, or raise `TaskNotFound`. It may be as it was so many seconds ago."""
        who.require(scope)
        task = await self._store.get(task_id, max_staleness)
        if task is None or not who.sees(task.queue):
            raise _no_task(task_id)
        return plain_task(task)

    async def page(self, who: Principal, which: TaskFilter, limit: int, cursor: str | None) -> Page:
        """Return a page of the tasks that who asks may see."""
        who.require(Scope.READ)
        queue = None if which.queue is None else who.stored_queue(which.queue)
        schedule = None if which.schedule is None else stored_queue(who.namespace, which.schedule)
        visible = msgspec.structs.replace(
            which, queue=queue, schedule=schedule, queues=await self.queues_of(who)
        )
        page = await self._store.page(visible, limit, cursor)
        return Page([plain_task(task) for task in page.tasks], page.cursor, page.partial)

    async def cancel(self, who: Principal, task_id: UUID, reason: str | None) -> CancelState:
        """Cancel a task; raises `TaskNotFound` or `TaskAlreadyFinished`."""
        await self._check_task(who, task_id, Scope.SUBMIT)
        return await self._session.lifecycle.cancel_one(task_id, reason)

    async def reschedule(self, who: Principal, task_id: UUID, at: datetime | None) -> TaskStatus:
        """Move a waiting task to another time, or to now."""
        await self._check_task(who, task_id, Scope.SUBMIT)
        return await self._session.lifecycle.reschedule(task_id, at)

    async def replay(
        self, who: Principal, which: DeadLetterFilter, payload: str | None
    ) -> list[UUID]:
        """Run dead letters again."""
        visible = await self._visible_dead_letters(who, which)
        return await self._session.lifecycle.replay(visible, payload)

    async def discard(self, who: Principal, which: DeadLetterFilter, reason: str) -> list[UUID]:
        """Give dead letters up."""
        visible = await self._visible_dead_letters(who, which)
        return await self._session.lifecycle.discard(visible, reason)

    async def queues(self, who: Principal) -> list[QueueState]:
        """Return the queues that who asks may see."""
        who.require(Scope.READ)
        states = await self._store.queues()
        return [
            msgspec.structs.replace(state, queue=plain_queue(state.queue))
            for state in states
            if who.sees(state.queue)
        ]

    async def unplaceable(self, who: Principal) -> list[Unplaceable]:
        """Return which due tasks of who asks no live worker can take for their labels."""
        who.require(Scope.READ)
        return [
            msgspec.structs.replace(one, queue=plain_queue(one.queue))
            for one in await self._store.unplaceable()
            if who.sees(one.queue)
        ]

    async def pause(self, who: Principal, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        who.require(Scope.ADMIN)
        await self._store.pause(who.stored_queue(check_name(queue, "queue")))

    async def resume(self, who: Principal, queue: str) -> None:
        """Let the tasks of a queue start again; raises `QueueNotFound`."""
        who.require(Scope.ADMIN)
        stored = who.stored_queue(check_name(queue, "queue"))
        if stored not in await self._store.queue_names():
            raise QueueNotFound(f"there is no queue {queue!r}", field="queue")
        await self._store.resume(stored)

    async def limits(self, who: Principal, queue: str) -> QueueLimits:
        """Return the limits of a queue; none where nobody set any."""
        who.require(Scope.READ)
        return await self._store.limits(who.stored_queue(check_name(queue, "queue")))

    async def set_limits(
        self,
        who: Principal,
        queue: str,
        *,
        whole: Limit | None = None,
        group: Limit | None = None,
    ) -> QueueLimits:
        """Replace the limit of a queue, that of each of its groups, or both (None: as it is), and
        return its limits.
        """
        who.require(Scope.ADMIN)
        stored = who.stored_queue(check_name(queue, "queue"))
        await self._store.set_limits(stored, whole=whole, group=group)
        return await self._store.limits(stored)

    async def set_group_limit(
        self, who: Principal, queue: str, group_key: str, limit: Limit | None
    ) -> None:
        """Give one group of a queue a limit of its own, or (None) that of every group again."""
        who.require(Scope.ADMIN)
        stored = who.stored_queue(check_name(queue, "queue"))
        await self._store.set_group_limit(stored, check_group_key(group_key), limit)

    async def workers(self, who: Principal) -> list[WorkerState]:
        """Return the workers that take tasks of who asks: their own, and those that serve all."""
        who.require(Scope.READ)
        found = []
        for worker in await self._store.workers():
            mine = None if worker.queues is None else tuple(filter(who.sees, worker.queues))
            if mine is None or mine:
                queues = None if mine is None else tuple(map(plain_queue, mine))
                found.append(msgspec.structs.replace(worker, queues=queues))
        return found

    def missing(self) -> tuple[str, ...]:
        """Return the parts of the store that do not answer: lists and sums leave them out."""
        return self._store.missing()

    async def queues_of(self, who: Principal) -> tuple[str, ...]:
        """Return the stored names of the queues that who asks may see."""
        return tuple(filter(who.sees, await self._store.queue_names()))

    async def dead_letter_count(self, who: Principal) -> int | None:
        """Return how many dead letters there are; None for who may not see all of them."""
        who.require(Scope.READ)
        return await self._store.dead_letter_count() if who.sees_all else None

    async def _visible_dead_letters(
        self, who: Principal, which: DeadLetterFilter
    ) -> DeadLetterFilter:
        who.require(Scope.ADMIN)
        if which.ids is None:
            return msgspec.structs.replace(which, queues=await self.queues_of(who))
        places = await self._store.places(which.ids)
        for task_id in which.ids:
            if task_id not in places or not who.sees(places[task_id].queue):
                raise _no_task(task_id)
        return which

    async def _take(self, namespace: str, count: int, seconds: float) -> float:
        """Take tasks from the quota within so many seconds; returns how many of them are left."""
        seconds = max(LEAST_SECONDS, seconds)
        if self._quotas.are_open(namespace):
            return seconds
        began = self._session.clock.monotonic()
        try:
            await within(seconds, self._quotas.take(namespace, count))
        except TimeoutError:
            message = "the task store did not answer in time and nothing was stored; try again"
            raise StoreUnavailable(message) from None
        return max(LEAST_SECONDS, seconds - (self._session.clock.monotonic() - began))

    async def _check_task(self, who: Principal, task_id: UUID, scope: Scope) -> None:
        who.require(scope)
        place = (await self._store.places([task_id])).get(task_id)
        if place is None or not who.sees(place.queue):
            raise _no_task(task_id)


def plain_task(task: Task) -> Task:
    """Return a task with the names that its own namespace knows."""
    if namespace_of(task.queue) == DEFAULT_NAMESPACE:
        return task
    return msgspec.structs.replace(
        task,
        queue=plain_queue(task.queue),
        key=plain_key(task.key),
        unique_key=plain_key(task.unique_key),
        schedule=None if task.schedule is None else plain_queue(task.schedule),
    )


def check_selection(which: DeadLetterFilter, *, all_of_them: bool) -> DeadLetterFilter:
    """Refuse a selection that names nothing: everything has to be asked for as such."""
    if which.ids is None and which.task_type is None and not all_of_them:
        message = "nothing is selected; give ids, a task_type, or all: true"
        raise InvalidValue(message, field="ids")
    if sum((which.ids is not None, which.task_type is not None, all_of_them)) > 1:
        message = "ids, task_type and all are given together; keep one of them"
        raise InvalidValue(message, field="ids")
    return which


def _as_given(task: NewTask) -> NewTask:
    return msgspec.structs.replace(task, key=plain_key(task.key))


def _outcome(task: NewTask, answer: Submission | BaseException) -> Outcome:
    if isinstance(answer, MainspringError):
        return answer
    if isinstance(answer, BaseException):
        raise answer
    if answer.conflict:
        return KeyConflict(
            f"key {shown(plain_key(task.key))} was used before for a different task, {answer.id}; "
            "use another key, or submit exactly the same task",
            field="key",
        )
    return answer


def _no_task(task_id: UUID) -> TaskNotFound:
    return TaskNotFound(f"there is no task {task_id}", field="task_id")
