"""The task types an app knows: name, handler, defaults. Built explicitly, one registry an app."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from mainspring.core.key_rules import KeyRule
from mainspring.domain.errors import InvalidValue, UnknownTaskType
from mainspring.domain.placement import Labels
from mainspring.domain.priority import DEFAULT
from mainspring.domain.retry import Backoff
from mainspring.domain.task import DEFAULT_MAX_RETRIES, DEFAULT_QUEUE, DEFAULT_TIMEOUT_SECONDS


class Mode(StrEnum):
    """Where a handler runs."""

    # That of a plain enumeration is a function in Python, and each task looks up a few of these.
    __hash__ = str.__hash__

    ASYNC = "async"
    """On the event loop of a runner process, beside others."""

    THREAD = "thread"
    """In a thread of a runner process: plain `def` handlers."""

    PROCESS = "process"
    """Alone in a process, which can be killed: `@app.task(process=True)`."""


class TaskDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A registered handler and the defaults of the tasks that run it."""

    name: str
    handler: Callable[..., Any]
    mode: Mode
    takes_context: bool
    """The first parameter is the `TaskContext`."""

    parameters: Any
    """Converts a decoded payload to the handler's keyword arguments: a msgspec Struct type made
    from the signature. Unknown and missing names and wrong types are refused."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    backoff: Backoff = Backoff()
    labels: Labels = ()
    """What the workers of its tasks have to offer."""

    group_key: KeyRule | None = None
    unique_key: KeyRule | None = None

    final_errors: tuple[type[BaseException], ...] = ()
    """Errors after which there is no further attempt."""

    exclusive: bool = False
    """An attempt begins only with a lock on its task, and goes on only while it has it."""


class ScheduleDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is written in code."""

    name: str
    task_type: str
    payload: Mapping[str, Any] | None
    on_conflict: str
    options: dict[str, Any]


class Registry:
    """What an app consists of: task definitions and schedules by name."""

    def __init__(self) -> None:
        self._definitions: dict[str, TaskDefinition] = {}
        self._schedules: dict[str, ScheduleDeclaration] = {}
        self.missed_run_alerts: list[Callable[[Any], None]] = []
        """Told of runs of schedules that were missed or late (`@app.on_missed_run`)."""

    def add(self, definition: TaskDefinition) -> None:
        """Register a definition; a name can be taken only once."""
        if definition.name in self._definitions:
            message = (
                f"task type {definition.name!r} is registered twice; "
                "give one of the two handlers another name with @app.task('name')"
            )
            raise InvalidValue(message, field="name")
        self._definitions[definition.name] = definition

    def get(self, name: str) -> TaskDefinition:
        """Return the definition of a task type or raise `UnknownTaskType`."""
        try:
            return self._definitions[name]
        except KeyError:
            known = ", ".join(sorted(self._definitions)) or "none"
            message = f"task type {name!r} has no handler in this app; it has: {known}"
            raise UnknownTaskType(message, field="task_type") from None

    def names(self) -> tuple[str, ...]:
        """Return the names of all task types, sorted."""
        return tuple(sorted(self._definitions))

    def add_schedule(self, declaration: ScheduleDeclaration) -> None:
        """Note a schedule; a name can be taken only once."""
        if declaration.name in self._schedules:
            message = (
                f"schedule {declaration.name!r} is declared twice; give one of the two another "
                "name with @app.schedule(..., name='...')"
            )
            raise InvalidValue(message, field="name")
        self._schedules[declaration.name] = declaration

    def schedules(self) -> tuple[ScheduleDeclaration, ...]:
        """Return the schedules in the order in which they were declared."""
        return tuple(self._schedules.values())

    def __contains__(self, name: str) -> bool:
        return name in self._definitions

    def __iter__(self) -> Iterator[TaskDefinition]:
        return iter(self._definitions.values())
