"""From what a user asks for to stored tasks.

`Submissions.build` checks and encodes; nothing that it accepts is refused later. `Submissions`
stores by group commit: the first submission is sent at once; those that arrive while it is on its
way are collected and sent together when it is done. Batches form under load by themselves, and a
lone submission waits for nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mainspring.core.builtin_tasks import check_builtin
from mainspring.core.definitions import arguments_of, check_text, misfit
from mainspring.core.json_encoding import encode
from mainspring.core.options import BOTH_KEYS, DEFAULTS, NO_OPTIONS, TaskOptions, fingerprint
from mainspring.core.registry import TaskDefinition
from mainspring.core.routed_commits import Commits
from mainspring.domain.errors import InvalidValue, KeyConflict, MainspringError, PayloadTooLarge
from mainspring.domain.ids import deciding_key
from mainspring.domain.placement import branch_of
from mainspring.domain.task import DEFAULT_QUEUE, NewTask, Submission
from mainspring.domain.values import (
    BATCH_MAX,
    check_name,
    kind_of,
    shown,
)
from mainspring.ports.clock import IdSource

_SHOWN_CONFLICTS: Final = 3


def build_task(
    ids: IdSource,
    task_type: str,
    payload: object,
    options: TaskOptions,
    definition: TaskDefinition | None = None,
) -> NewTask:
    """Return a task that the store will accept, or raise `InvalidValue` naming the field.

    The payload is an object: the handler's parameters by name. Dates, UUIDs, dataclasses and the
    like become JSON as msgspec writes them; bytes and sets, which would come back as something
    else, are refused. With a definition the payload must fit its signature.
    The options are complete (`complete_options`).
    """
    if definition is None:
        check_name(task_type, "task_type")
    encoded = encode_payload(payload, definition)
    check_builtin(task_type, encoded)
    if definition is not None and (definition.group_key or definition.unique_key):
        options = _with_keys(options, definition, encoded)
    chosen: Any = options
    key = options.key
    return NewTask(
        id=ids.task_id(deciding_key(options.group_key, options.unique_key, key)),
        task_type=task_type,
        payload=encoded,
        queue=branch_of(options.queue or DEFAULT_QUEUE, options.labels),
        priority=chosen.priority,
        scheduled_at=options.at,
        delay_seconds=options.delay or 0.0,
        timeout_seconds=chosen.timeout,
        max_retries=chosen.max_retries,
        backoff=chosen.backoff,
        group_key=options.group_key,
        unique_key=options.unique_key,
        webhook=options.webhook,
        key=key,
        fingerprint=None if key is None else fingerprint(task_type, encoded, options),
    )


def complete_options(
    options: TaskOptions = NO_OPTIONS, definition: TaskDefinition | None = None
) -> TaskOptions:
    """Return options in which everything is chosen that has a default."""
    return options.over(_defaults_of(definition))


def _with_keys(options: TaskOptions, definition: TaskDefinition, encoded: str) -> TaskOptions:
    """Return options with the keys that the task type has for a payload, where none were given."""

    def arguments() -> Mapping[str, Any]:
        return arguments_of(definition, msgspec.json.decode(encoded))

    given: dict[str, str | None] = {}
    if definition.group_key is not None and options.group_key is None:
        given["group_key"] = definition.group_key.key_of(arguments)
    if definition.unique_key is not None and options.unique_key is None:
        given["unique_key"] = definition.unique_key.key_of(arguments)
    if options.key is not None and given.get("unique_key") is not None:
        message = f"{BOTH_KEYS}; task type {definition.name!r} has a unique key of its own"
        raise InvalidValue(message, field="key")
    return msgspec.structs.replace(options, **given)


def encode_payload(
    payload: object, definition: TaskDefinition | None = None, field: str = "payload"
) -> str:
    """Return the JSON text of a payload, at most 256 KiB, or raise `InvalidValue`.

    With a definition the payload has to be one that its handler would accept.
    """
    if type(payload) is not dict:
        if not isinstance(payload, Mapping):
            kind = kind_of(payload)
            message = f"{field} is {kind}; give an object, the handler's parameters by name"
            raise InvalidValue(message, field=field)
        payload = dict(payload)
    text = encode(payload, field, strict=True)
    if definition is not None:
        _check_parameters(text, definition, field)
    return text


def _check_parameters(text: str, definition: TaskDefinition, field: str) -> None:
    try:
        check_text(definition, text)
    except ValueError as error:
        problem, where = misfit(error)
        path = field + where.removeprefix("payload")
        message = f"{path} does not fit task type {definition.name!r}: {problem}"
        raise InvalidValue(message, field=path) from None


def _defaults_of(definition: TaskDefinition | None) -> TaskOptions:
    if definition is None:
        return DEFAULTS
    return TaskOptions(
        queue=definition.queue,
        priority=definition.priority,
        timeout=definition.timeout_seconds,
        max_retries=definition.max_retries,
        backoff=definition.backoff,
        labels=definition.labels,
    )


class Submissions:
    """Stores built tasks durably."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def submit(
        self, task: NewTask, timeout: float | None = None, *, first: bool = False
    ) -> Submission:
        """Store one task and return what became of it.

        `first` says that the task was made for this call and that nobody else has it.

        Raises `KeyConflict`, `StoreUnavailable` (nothing was stored) or `OutcomeUnknown`.
        """
        submission = await self._commits.submit(task, timeout, first=first)
        raise_conflict(task, submission)
        return submission

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission]:
        """Store up to 10,000 tasks, in batches of 1,000, and answer for each in order.

        A task whose key was used for a different task is answered with `conflict`; the others are
        stored. Any other failure raises, and says how many of the tasks were stored.
        """
        if len(tasks) > BATCH_MAX:
            message = f"tasks has {len(tasks):,} entries; submit at most {BATCH_MAX:,} in one call"
            raise PayloadTooLarge(message, field="tasks")
        answers = await self._commits.submit_many(tasks, timeout, first=first)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            _raise_partial(failures, len(tasks))
        return [answer for answer in answers if isinstance(answer, Submission)]

    async def attempt_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store tasks as `submit_many` does, and answer for each with its error instead of
        raising.
        """
        return await self._commits.submit_many(tasks, timeout, first=first)

    async def close(self) -> None:
        """Wait for what is on its way."""
        await self._commits.close()


def raise_conflict(task: NewTask, submission: Submission) -> None:
    """Raise `KeyConflict` if the task's key was used before for a different task."""
    if submission.conflict:
        message = (
            f"key {shown(task.key)} was used before for a different task, {submission.id}; "
            "use another key, or submit exactly the same task"
        )
        raise KeyConflict(message, field="key")


def raise_conflicts(tasks: Sequence[NewTask], submissions: Sequence[Submission]) -> None:
    """Raise `KeyConflict` naming the tasks of a batch whose keys were used for different ones."""
    conflicts = [at for at, submission in enumerate(submissions) if submission.conflict]
    if not conflicts:
        return
    some = ", ".join(f"tasks[{at}] ({shown(tasks[at].key)})" for at in conflicts[:_SHOWN_CONFLICTS])
    more = ", ..." if len(conflicts) > _SHOWN_CONFLICTS else ""
    message = (
        f"{len(conflicts)} of {len(tasks)} tasks have a key that was used before for a different "
        f"task: {some}{more}; the others were stored, so give these another key"
    )
    raise KeyConflict(message, field=f"tasks[{conflicts[0]}].key")


def _raise_partial(failures: Sequence[BaseException], total: int) -> None:
    first = failures[0]
    if isinstance(first, MainspringError) and total > 1:
        stored = total - len(failures)
        message = f"{stored:,} of {total:,} tasks were stored; for the others: {first.message}"
        raise type(first)(message, field=first.field) from first
    raise first
