"""The tasks of an app as users hold them: types to submit, and handles of what was submitted."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload
from uuid import UUID

import msgspec

from mainspring.core.context import TaskContext
from mainspring.core.definitions import named, payload_check
from mainspring.core.options import NO_OPTIONS, OptionKeywords, TaskOptions, checked_options
from mainspring.core.registry import TaskDefinition
from mainspring.core.submission import TaskMaker, complete_options, keys_of
from mainspring.domain.errors import InvalidValue
from mainspring.domain.task import CancelState, NewTask, Submission, Task
from mainspring.ports.clock import IdSource

P = ParamSpec("P")
"""Parameters of a handler's function."""

Q = ParamSpec("Q")
"""Those of them that are the payload: all but the TaskContext."""

R = TypeVar("R")


class App(Protocol):
    """What handles and types need of the app they belong to."""

    ids: IdSource

    async def store(
        self, tasks: Sequence[NewTask], connection: Any = None, *, first: bool = False
    ) -> list[Submission]:
        """Store built tasks."""
        ...

    async def store_each(self, tasks: Iterable[NewTask]) -> list[Submission]:
        """Store tasks while they are made for this call."""
        ...

    async def get(self, task_id: UUID) -> "TaskState":
        """Return a task."""
        ...

    async def wait(self, task_id: UUID, timeout: float | None = None) -> "TaskState":
        """Return a task once it has ended."""
        ...

    async def cancel(self, task_id: UUID, reason: str | None = None) -> CancelState:
        """Cancel a task."""
        ...

    async def reschedule(self, task_id: UUID, at: datetime | None) -> None:
        """Move a waiting task in time."""
        ...


class TaskState(Task, frozen=True, kw_only=True):
    """A task as it was when it was read; `payload`, `result` and `progress` are plain values."""

    payload: Any
    result: Any = None
    progress: Any = None


def state_of(task: Task) -> TaskState:
    """Return a task with its JSON parts as plain values."""
    fields = msgspec.structs.asdict(task)
    for name in ("payload", "result", "progress"):
        fields[name] = None if fields[name] is None else msgspec.json.decode(fields[name])
    return TaskState(**fields)


class TaskHandle:
    """A submitted task."""

    def __init__(self, app: "App", submission: Submission) -> None:
        self._app = app
        self.id: UUID = submission.id
        """Identity of the task."""

        self.is_new: bool = submission.is_new
        """False when the idempotency key had been used before: this is the task of that time. Also
        when a task with the unique key is live: this is that one."""

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id}>"

    async def wait(self, timeout: float | None = None) -> TaskState:
        """Return the task once it has ended, however it did; look at `status` and `result`.

        Raises `WaitTimedOut` after `timeout` seconds (default: waits for ever).
        """
        return await self._app.wait(self.id, timeout)

    async def refresh(self) -> TaskState:
        """Return the task as it is now."""
        return await self._app.get(self.id)

    async def cancel(self, reason: str | None = None) -> CancelState:
        """Cancel the task: `CANCELLED` if it will never start, `CANCELLING` if it is running and
        its handler is being told. Raises `TaskAlreadyFinished`.
        """
        return await self._app.cancel(self.id, reason)

    async def reschedule(self, at: datetime | None) -> None:
        """Move the task, which must be waiting, to another time, or to now (None)."""
        await self._app.reschedule(self.id, at)


class TaskType(Generic[P, Q, R]):
    """A registered handler. Calling it calls the function itself, here and now."""

    def __init__(self, app: "App", definition: TaskDefinition, function: Callable[P, R]) -> None:
        self._app = app
        self._check = payload_check(definition)
        self._plain: TaskCall[Q] = TaskCall(app, definition, self._check, NO_OPTIONS, None)
        self.definition = definition
        self.name = definition.name
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", definition.name)
        self.__qualname__ = getattr(function, "__qualname__", definition.name)
        self.__module__ = function.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler's function directly, without a task."""
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<TaskType {self.name!r}>"

    async def submit(self, *args: Q.args, **kwargs: Q.kwargs) -> TaskHandle:
        """Submit a task that runs this handler with these parameters; stored when it returns."""
        return await self._plain.submit(*args, **kwargs)

    async def submit_many(self, parameters: Iterable[Mapping[str, Any]]) -> list[TaskHandle]:
        """Submit a task for each of many parameters, given by name: the quickest way for many.

        `parameters` may be a generator and as many as you like; the tasks are stored in batches of
        1,000, each of which appears as a whole, while the next ones are made. Raises as `submit`
        does, and says how many were stored; the others were not, or with `OutcomeUnknown` perhaps.
        """
        return await self._plain.submit_many(parameters)

    def build(self, *args: Q.args, **kwargs: Q.kwargs) -> NewTask:
        """Return a task for `Mainspring.submit_many` without storing it."""
        return self._plain.build(*args, **kwargs)

    def options(
        self, *, connection: Any = None, **options: Unpack[OptionKeywords]
    ) -> "TaskCall[Q]":
        """Return this task type with choices for the next submission.

        Takes `at` or `delay` (`in_`), `priority`, `queue`, `timeout`, `max_retries`, `backoff`,
        `key`, `labels`, `group_key`, `unique_key` and `webhook`; see `TaskOptions` for units and
        bounds. With `connection` the task is stored inside the caller's transaction on it: asyncpg,
        psycopg 3, SQLAlchemy or Django.
        """
        chosen = checked_options(options)
        return TaskCall(self._app, self.definition, self._check, chosen, connection)


class Register(Protocol):
    """What `@app.task(...)` returns: it takes the handler's function."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, Q], R], /
    ) -> TaskType[Concatenate[TaskContext, Q], Q, R]: ...

    @overload
    def __call__(self, function: Callable[Q, R], /) -> TaskType[Q, Q, R]: ...


class TaskCall(Generic[Q]):
    """A task type together with the options of a submission."""

    def __init__(
        self,
        app: "App",
        definition: TaskDefinition,
        check: Callable[[str], object],
        options: TaskOptions,
        connection: Any,
    ) -> None:
        self._app = app
        self._definition = definition
        self._has_key = options.key is not None
        complete = complete_options(options, definition)
        self._make = TaskMaker(definition.name, complete, check, keys_of(definition)).make
        self._connection = connection

    async def submit(self, *args: Q.args, **kwargs: Q.kwargs) -> TaskHandle:
        """Submit a task with these parameters and the chosen options."""
        built = self.build(*args, **kwargs)
        (stored,) = await self._app.store([built], self._connection, first=True)
        return TaskHandle(self._app, stored)

    async def submit_many(self, parameters: Iterable[Mapping[str, Any]]) -> list[TaskHandle]:
        """Submit a task for each of many parameters; see `TaskType.submit_many`."""
        if self._has_key:
            message = "key belongs to one task; build each with its own for app.submit_many"
            raise InvalidValue(message, field="key")
        made = self._made(parameters)
        if self._connection is None:
            stored = await self._app.store_each(made)
        else:
            stored = await self._app.store([*made], self._connection, first=True)
        app = self._app
        return [TaskHandle(app, submission) for submission in stored]

    def _made(self, parameters: Iterable[Mapping[str, Any]]) -> Iterator[NewTask]:
        make, ids = self._make, self._app.ids
        return (make(ids, each) for each in parameters)

    def build(self, *args: Q.args, **kwargs: Q.kwargs) -> NewTask:
        """Return a task for `Mainspring.submit_many` without storing it."""
        definition = self._definition
        payload = named(definition, args, kwargs) if args else kwargs
        return self._make(self._app.ids, payload)
