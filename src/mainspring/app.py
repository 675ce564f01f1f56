"""The front door: an app, its task types and the tasks that were submitted."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Final, Self, Unpack, overload
from uuid import UUID

from mainspring.app_limits import AppLimits
from mainspring.app_schedules import AppSchedules, DeclaredSchedules
from mainspring.app_tasks import Q, R, Register, TaskHandle, TaskState, TaskType, state_of
from mainspring.config import Settings, load
from mainspring.core.builtin_tasks import check_unreserved
from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.core.key_rules import KeySource
from mainspring.core.lifecycle import task_id_of
from mainspring.core.options import (
    OptionKeywords,
    checked_options,
)
from mainspring.core.registry import Registry
from mainspring.core.session import Session
from mainspring.core.submission import (
    build_task,
    complete_options,
    encode_payload,
    raise_conflict,
    raise_conflicts,
)
from mainspring.domain.errors import InvalidValue
from mainspring.domain.retry import Backoff
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, NewTask, Submission
from mainspring.domain.values import check_instant, check_key, check_name, check_whole, shown
from mainspring.ports.store import DeadLetterFilter, QueueState, TaskFilter
from mainspring.sync import SyncFacade
from mainspring.wiring.connecting import database_url
from mainspring.wiring.sessions import Sessions
from mainspring.wiring.store import open_session, system_ids
from mainspring.wiring.transactions import caller_transactions

_LIMIT_MAX: Final = 1_000_000_000


class Mainspring(DeclaredSchedules):
    """A Mainspring app: register handlers, submit tasks, look after them.

    Nothing is opened before the first use. `settings` default to those of the environment, read
    at that moment. An app may be used from several event loops and threads; each gets connections
    of its own, which `close` releases.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self.registry = Registry()
        self.ids = system_ids()
        self.sessions = Sessions(self._open)
        self._transactions = caller_transactions(lambda: self.settings)
        self.schedules = AppSchedules(self.sessions, self.registry)
        """Schedules: `app.schedules.create(...)` and so on."""

        self.limits = AppLimits(self.sessions)
        """Limits of queues: `app.limits.set_queue(...)` and so on."""

        self.sync = SyncFacade(self)
        """The same verbs for callers that block: `app.sync.submit(...)`."""

    @property
    def settings(self) -> Settings:
        """The settings; read from the environment when they were not given."""
        if self._settings is None:
            self._settings = load()
        return self._settings

    @property
    def database_url(self) -> str:
        """The PostgreSQL that the tasks are in, to keep your own tables beside them: the configured
        one, or that of the `mainspring up` of this directory. Raises `StoreUnavailable`.
        """
        return database_url(self.settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections of the running event loop. The app may be used again."""
        await self.sessions.close()

    @overload
    def task(
        self, name: Callable[Concatenate[TaskContext, Q], R], /
    ) -> TaskType[Concatenate[TaskContext, Q], Q, R]: ...

    @overload
    def task(self, name: Callable[Q, R], /) -> TaskType[Q, Q, R]: ...

    @overload
    def task(
        self,
        name: str | None = None,
        /,
        *,
        priority: int | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        backoff: str | Backoff | None = None,
        queue: str | None = None,
        labels: Sequence[str] | None = None,
        group_key: KeySource | None = None,
        unique_key: KeySource | None = None,
        process: bool = False,
        exclusive: bool = False,
        final_errors: Sequence[type[BaseException]] = (),
    ) -> Register: ...

    def task(
        self,
        name: str | Callable[..., Any] | None = None,
        /,
        *,
        group_key: KeySource | None = None,
        unique_key: KeySource | None = None,
        process: bool = False,
        exclusive: bool = False,
        final_errors: Sequence[type[BaseException]] = (),
        **defaults: Any,
    ) -> Any:
        """Register a handler: `@app.task`, or `@app.task("name", priority=3, timeout=30)`.

        The name defaults to that of the function. `timeout` is the longest an attempt may run, in
        seconds (300); `max_retries` the further attempts after a failure (3); `priority` 0 to 10
        (5); `backoff` the name of a kind or a `Backoff`; `queue` where its tasks wait;
        `labels` what their workers have to offer, such as ``["gpu"]``. `group_key` and `unique_key`
        (see `TaskOptions`) are text or a function of the handler's parameters, any of them by
        name: ``unique_key=lambda customer: f"sync:{customer}"``. With `process=True` a plain
        function runs alone in a process that can be killed. With `exclusive=True` an attempt
        begins only when it has a lock on its task in Redis, and waits while that cannot be had.
        After one of `final_errors` there is no further attempt. Raises `InvalidValue`.
        """
        options = checked_options(defaults)
        if any(getattr(options, name) is not None for name in ("key", "at", "delay", "webhook")):
            message = "key, at, delay and webhook belong to one task; give them to options(...)"
            raise InvalidValue(message, field="key")
        if isinstance(name, str):
            check_unreserved(name)

        def register(function: Callable[..., Any]) -> TaskType[..., ..., Any]:
            full = complete_options(options)
            definition = define(
                name if isinstance(name, str) else getattr(function, "__name__", ""),
                function,
                process=process,
                exclusive=exclusive,
                queue=full.queue,
                priority=full.priority,
                timeout_seconds=full.timeout,
                max_retries=full.max_retries,
                backoff=full.backoff,
                labels=full.labels,
                group_key=group_key,
                unique_key=unique_key,
                final_errors=_checked_errors(final_errors),
            )
            self.registry.add(definition)
            return TaskType(self, definition, function)

        if name is None or isinstance(name, str):
            return register
        return register(name)

    def new_task(
        self,
        task: "str | TaskType[..., ..., Any] | NewTask",
        payload: Any = None,
        /,
        **options: Unpack[OptionKeywords],
    ) -> NewTask:
        """Build a task by the name of its type, which need not be registered here.

        If it is registered, the payload is checked against its handler's signature and the type's
        defaults apply.
        """
        if isinstance(task, NewTask):
            if payload is not None or options:
                message = "task is already built; give payload and options to build it with"
                raise InvalidValue(message, field="task")
            return task
        task_type = task.name if isinstance(task, TaskType) else task
        definition = self.registry.get(task_type) if task_type in self.registry else None
        chosen = complete_options(checked_options(options), definition)
        return build_task(
            self.ids, task_type, {} if payload is None else payload, chosen, definition
        )

    async def submit(
        self,
        task: "str | TaskType[..., ..., Any] | NewTask",
        payload: Any = None,
        /,
        *,
        connection: Any = None,
        **options: Unpack[OptionKeywords],
    ) -> TaskHandle:
        """Submit a task by the name of its type and its payload, or one made by `build`.

        It is on disk when this returns, or, with `connection`, as soon as the caller commits.
        Raises `InvalidValue`, `KeyConflict`, `StoreUnavailable` (nothing was stored) or
        `OutcomeUnknown`.
        """
        built = self.new_task(task, payload, **options)
        (stored,) = await self.store([built], connection, first=built is not task)
        return TaskHandle(self, stored)

    async def submit_many(
        self, tasks: Sequence[NewTask], *, connection: Any = None
    ) -> list[TaskHandle]:
        """Submit up to 10,000 tasks made by `build`, in order.

        They are stored in batches of 1,000, each of which appears as a whole. Raises `KeyConflict`
        when keys were used for different tasks; the others are stored.
        """
        return [TaskHandle(self, stored) for stored in await self.store(tasks, connection)]

    async def store(
        self, tasks: Sequence[NewTask], connection: Any = None, *, first: bool = False
    ) -> list[Submission]:
        """Store built tasks and return what became of each; the work of `submit_many`.

        `first` says that they were made for this call and that nobody else has them.
        """
        _check_built(tasks)
        if connection is None:
            session = await self.sessions.current()
            if len(tasks) == 1:
                return [await session.submissions.submit(tasks[0], first=first)]
            stored = await session.submissions.submit_many(tasks, first=first)
        else:
            stored = await self._transactions.submit(connection, tasks)
        if len(tasks) == 1:
            raise_conflict(tasks[0], stored[0])
        raise_conflicts(tasks, stored)
        return stored

    async def store_each(self, tasks: Iterable[NewTask]) -> list[Submission]:
        """Store tasks while they are made for this call; the work of `TaskType.submit_many`."""
        session = await self.sessions.current()
        return await session.submissions.submit_each(tasks, first=True)

    async def get(self, task_id: UUID | str, *, max_staleness: float = 0.0) -> TaskState:
        """Return a task as it is now; raises `TaskNotFound`. With `max_staleness` it may be as it
        was up to so many seconds ago, which lets a read replica answer.
        """
        session = await self.sessions.current()
        task = await session.lifecycle.get(task_id_of(task_id), max_staleness)
        return state_of(task)

    async def wait(self, task_id: UUID | str, timeout: float | None = None) -> TaskState:
        """Return a task once it has ended; raises `WaitTimedOut` after `timeout` seconds."""
        session = await self.sessions.current()
        await session.waiting.wait(task_id_of(task_id), timeout)
        return await self.get(task_id)

    async def cancel(self, task_id: UUID | str, reason: str | None = None) -> CancelState:
        """Cancel a task; see `TaskHandle.cancel`."""
        session = await self.sessions.current()
        return await session.lifecycle.cancel_one(task_id_of(task_id), reason)

    async def reschedule(self, task_id: UUID | str, at: datetime | None) -> None:
        """Move a waiting task to another time, or to now (None); raises `TaskNotWaiting`."""
        session = await self.sessions.current()
        await session.lifecycle.reschedule(task_id_of(task_id), at)

    async def tasks(
        self,
        *,
        status: TaskStatus | str | None = None,
        task_type: str | None = None,
        queue: str | None = None,
        schedule: str | None = None,
        group_key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[TaskState]:
        """Yield tasks, newest first: `async for task in app.tasks(status="failed")`.

        `since` and `until` bound the time of creation and have an offset from UTC; `limit` is the
        most tasks to yield (all). Raises `InvalidValue`.
        """
        which = TaskFilter(
            status=_checked_status(status),
            task_type=None if task_type is None else check_name(task_type, "task_type"),
            queue=None if queue is None else check_name(queue, "queue"),
            schedule=None if schedule is None else check_name(schedule, "schedule"),
            group_key=None
            if group_key is None
            else check_key(group_key, "group_key", "a group key"),
            since=None if since is None else check_instant(since, "since"),
            until=None if until is None else check_instant(until, "until"),
        )
        if limit is not None:
            check_whole(limit, "limit", 1, _LIMIT_MAX)
        session = await self.sessions.current()
        async for task in session.lifecycle.scan(which, limit):
            yield state_of(task)

    async def replay(
        self,
        *task_ids: UUID | str,
        task_type: str | None = None,
        payload: Any = None,
    ) -> list[UUID]:
        """Run dead letters again, with a corrected payload if one is given: the named ones, or
        all of a type. Returns their ids; raises `NotADeadLetter`.
        """
        text = None if payload is None else encode_payload(payload)
        session = await self.sessions.current()
        return await session.lifecycle.replay(_dead_letters(task_ids, task_type), text)

    async def discard(
        self, *task_ids: UUID | str, reason: str, task_type: str | None = None
    ) -> list[UUID]:
        """End dead letters for good, with a reason; returns their ids."""
        session = await self.sessions.current()
        return await session.lifecycle.discard(_dead_letters(task_ids, task_type), reason)

    async def queues(self) -> list[QueueState]:
        """Return every queue that a task was ever submitted to, with its counts."""
        session = await self.sessions.current()
        return await session.store.queues()

    async def pause_queue(self, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        session = await self.sessions.current()
        await session.lifecycle.pause(queue)

    async def resume_queue(self, queue: str) -> None:
        """Let the tasks of a queue start again."""
        session = await self.sessions.current()
        await session.lifecycle.resume(queue)

    async def _open(self) -> Session:
        return await open_session(self.settings)


def _check_built(tasks: Sequence[Any]) -> None:
    for index, task in enumerate(tasks):
        # By its exact type first: to ask for an instance of a struct takes ten times as long.
        if type(task) is not NewTask and not isinstance(task, NewTask):
            field = f"tasks[{index}]"
            message = f"{field} is {shown(task)}; give tasks made by build(...) or new_task(...)"
            raise InvalidValue(message, field=field)


def _checked_errors(errors: Sequence[Any]) -> tuple[type[BaseException], ...]:
    for error in errors:
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            message = f"final_errors contains {shown(error)}; list exception classes"
            raise InvalidValue(message, field="final_errors")
    return tuple(errors)


def _checked_status(status: TaskStatus | str | None) -> TaskStatus | None:
    try:
        return None if status is None else TaskStatus(status)
    except ValueError:
        message = f"status is {shown(status)}; choose from {', '.join(TaskStatus)}"
        raise InvalidValue(message, field="status") from None


def _dead_letters(task_ids: Sequence[UUID | str], task_type: str | None) -> DeadLetterFilter:
    if not task_ids and task_type is None:
        message = "task_ids is empty; name dead letters, or a task_type to take all of it"
        raise InvalidValue(message, field="task_ids")
    ids = tuple(task_id_of(one) for one in task_ids) or None
    return DeadLetterFilter(ids=ids, task_type=task_type)
