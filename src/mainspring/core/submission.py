"""From what a user asks for to stored tasks.

`TaskMaker` checks and encodes; nothing that it accepts is refused later. `Submissions` stores by
group commit: the first submission is sent at once; those that arrive while it is on its way are
collected and sent together when it is done. Batches form under load by themselves, and a lone
submission waits for nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import msgspec

from mainspring.core.builtin_tasks import check_builtin
from mainspring.core.bulk import commit_while_made
from mainspring.core.definitions import arguments_of, misfit, payload_check
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

    For many tasks of one type and the same options a `TaskMaker` that is kept is quicker.
    """
    if definition is None:
        check_name(task_type, "task_type")
    check = None if definition is None else payload_check(definition)
    keys = None if definition is None else keys_of(definition)
    return TaskMaker(task_type, options, check, keys).make(ids, payload)


class TaskMaker:
    """Builds the tasks of one type that have their options in common.

    The options are complete (`complete_options`). `check` takes the JSON text of a payload and
    raises `ValueError` unless it fits the handler (`payload_check`); None: any object does. `keys`
    adds the keys that a task has by its payload (`keys_of`); None: it has none.
    """

    def __init__(
        self,
        task_type: str,
        options: TaskOptions,
        check: Callable[[str], object] | None,
        keys: Callable[[TaskOptions, str], TaskOptions] | None = None,
    ) -> None:
        self._task_type = task_type
        self._options = options
        self._check = check
        self._keys = keys
        self._queue = branch_of(options.queue or DEFAULT_QUEUE, options.labels)
        self._delay = options.delay or 0.0

    def make(self, ids: IdSource, payload: object) -> NewTask:
        """Return a task that the store will accept, or raise `InvalidValue` naming the field.

        The payload is an object: the handler's parameters by name. Dates, UUIDs, dataclasses and
        the like become JSON as msgspec writes them; bytes and sets, which would come back as
        something else, are refused.
        """
        task_type = self._task_type
        encoded = _encode_object(payload, "payload")
        if self._check is not None:
            _check_parameters(encoded, self._check, task_type, "payload")
        check_builtin(task_type, encoded)
        options: Any = self._options
        if self._keys is not None:
            options = self._keys(options, encoded)
        key = options.key
        return NewTask(
            id=ids.task_id(deciding_key(options.group_key, options.unique_key, key)),
            task_type=task_type,
            payload=encoded,
            queue=self._queue,
            priority=options.priority,
            scheduled_at=options.at,
            delay_seconds=self._delay,
            timeout_seconds=options.timeout,
            max_retries=options.max_retries,
            backoff=options.backoff,
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


def keys_of(definition: TaskDefinition) -> Callable[[TaskOptions, str], TaskOptions] | None:
    """Return a function that adds to options the keys that the task type has for the JSON text of
    a payload, where none were given; None if it has no keys.
    """
    if definition.group_key is None and definition.unique_key is None:
        return None
    return partial(_with_keys, definition)


def _with_keys(definition: TaskDefinition, options: TaskOptions, encoded: str) -> TaskOptions:

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
    text = _encode_object(payload, field)
    if definition is not None:
        _check_parameters(text, payload_check(definition), definition.name, field)
    return text


def _encode_object(payload: object, field: str) -> str:
    if type(payload) is not dict:
        if not isinstance(payload, Mapping):
            kind = kind_of(payload)
            message = f"{field} is {kind}; give an object, the handler's parameters by name"
            raise InvalidValue(message, field=field)
        payload = dict(payload)
    return encode(payload, field, strict=True)


def _check_parameters(
    text: str, check: Callable[[str], object], task_type: str, field: str
) -> None:
    try:
        check(text)
    except ValueError as error:
        problem, where = misfit(error)
        path = field + where.removeprefix("payload")
        message = f"{path} does not fit task type {task_type!r}: {problem}"
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
        return _all_stored(await self._commits.submit_many(tasks, timeout, first=first))

    async def submit_each(
        self, tasks: Iterable[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission]:
        """Store any number of tasks while they are made, in batches of 1,000, and answer for each
        in order. Each batch has `timeout` seconds.

        When making one fails, those of the batches before are stored, and the error says how many.
        """
        answers, failure = await commit_while_made(self._commits, tasks, timeout, first=first)
        if failure is not None:
            _raise_interrupted(failure, answers)
        return _all_stored(answers)

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


def _all_stored(answers: list[Submission | BaseException]) -> list[Submission]:
    """Return the answers, or raise if one of them is an error."""
    # By their exact type: to ask whether something is an instance of a struct takes ten times as
    # long, and there are thousands of them.
    stored = [answer for answer in answers if type(answer) is Submission]
    if len(stored) < len(answers):
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        _raise_partial(failures, len(answers))
    return stored


def _raise_interrupted(
    failure: Exception, answers: Sequence[Submission | BaseException]
) -> NoReturn:
    stored = sum(isinstance(answer, Submission) for answer in answers)
    note = f"{stored:,} tasks were stored before it"
    if isinstance(failure, MainspringError):
        raise type(failure)(f"{failure.message} ({note})", field=failure.field) from failure
    failure.add_note(note)
    raise failure


def _raise_partial(failures: Sequence[BaseException], total: int) -> NoReturn:
    first = failures[0]
    if isinstance(first, MainspringError) and total > 1:
        stored = total - len(failures)
        message = f"{stored:,} of {total:,} tasks were stored; for the others: {first.message}"
        raise type(first)(message, field=first.field) from first
    raise first
