"""Submitting tasks."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from mainspring.adapters.postgres.failures import LOCK_TIMEOUT, UNIQUE_VIOLATION, sqlstates
from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.rows import backoff_columns
from mainspring.adapters.postgres.webhooks import webhook_document
from mainspring.core.options import BOTH_KEYS, DELAY_SECONDS_MAX
from mainspring.domain.errors import InvalidValue, StoreHeldUp, StoreUnavailable
from mainspring.domain.namespaces import plain_key
from mainspring.domain.priority import DEFAULT
from mainspring.domain.retry import Backoff
from mainspring.domain.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    NewTask,
    Submission,
)
from mainspring.domain.values import (
    RETRIES_MAX,
    check_instant,
    check_key,
    check_name,
    check_priority,
    check_seconds,
    check_whole,
)
from mainspring.ports.hooks import HookPoint

T = TypeVar("T")

_ONE: Final = QUERIES["submit_one"]
_ONE_RECORDED: Final = QUERIES["submit_one_recorded"]
_FIRST: Final = QUERIES["submit_first"]
_FIRST_RECORDED: Final = QUERIES["submit_first_recorded"]
_SUBMIT: Final = QUERIES["submit"]
_SUBMIT_RECORDED: Final = QUERIES["submit_recorded"]
_SUBMIT_HOOKED: Final = QUERIES["submit_hooked"]
_NO_RECORDS: Final[tuple[list[Any], ...]] = ([],) * 6
_DEFAULT_BACKOFF: Final = Backoff()
_DEFAULT_KIND: Final = _DEFAULT_BACKOFF.kind.value
_KEYS_AT: Final = 13
"""Place of the keys, and after them the fingerprints and the other keys, among the columns of a
batch."""

_SOON_SECONDS: Final = 1.0
"""Whoever waits looks by itself for what is due later than this."""


class Submitting(StorePart):
    """`TaskStore.submit`."""

    async def submit(self, tasks: Sequence[NewTask], *, first: bool = False) -> list[Submission]:
        """Store tasks durably and answer for each in order."""
        if not tasks:
            return []
        if first and all(map(_is_plain, tasks)) and await self._insert(tasks):
            answers = [Submission(task.id) for task in tasks]
        else:
            answers = await self._submit(tasks)
        await self._hooks.reach(HookPoint.SUBMIT_AFTER_COMMIT)
        if any(self._due_soon(task) for task in tasks):
            self._announcer.ready()
        return answers

    async def _insert(self, tasks: Sequence[NewTask]) -> bool:
        """Store tasks that nobody has seen; False: nothing was stored, it takes `_submit`."""
        try:
            if len(tasks) == 1:
                return await self._insert_one(tasks[0])
            records = record_columns(tasks)
            ids, types, *columns = batch_columns(tasks)[:_KEYS_AT]
            different = {task.task_type for task in tasks}
            if len(different) == 1:
                # Most of its time the driver looks whether what is in a list is a list itself.
                types = [*different]
            queues = [*{task.queue for task in tasks}]
            arguments = (ids, types, *columns, self._now(), queues)
            if records is None:
                rows = await self._main.fetch(_FIRST, *arguments)
            else:
                rows = await self._main.fetch(_FIRST_RECORDED, *arguments, *records)
            return bool(rows[0][0])
        except InvalidValue as error:
            if UNIQUE_VIOLATION not in sqlstates(error):
                raise
            return False

    async def _insert_one(self, task: NewTask) -> bool:
        row, origin = one_row(task), task.origin
        if origin is None:
            return bool(await self._main.fetch(_ONE, *row, self._now()))
        who = (origin.actor, origin.namespace, origin.action, origin.address, origin.request_id)
        return bool(await self._main.fetch(_ONE_RECORDED, *row, self._now(), *who))

    async def _submit(self, tasks: Sequence[NewTask]) -> list[Submission]:
        """Store tasks whatever became of them before, with their keys and records."""
        check_values(tasks)
        try:
            return await self._store_all(tasks)
        except StoreUnavailable as error:
            if LOCK_TIMEOUT not in sqlstates(error):
                raise
            raise StoreHeldUp("another transaction holds a key or a new queue of these") from error

    async def _store_all(self, tasks: Sequence[NewTask]) -> list[Submission]:
        sent = distinct(tasks)
        columns = batch_columns(sent)
        records = record_columns(sent)
        webhooks = webhook_document(sent)
        if webhooks is not None:
            rows = await self._main.fetch(
                _SUBMIT_HOOKED, *columns, self._now(), *(records or _NO_RECORDS), webhooks
            )
        elif records is None:
            rows = await self._main.fetch(_SUBMIT, *columns, self._now())
        else:
            rows = await self._main.fetch(_SUBMIT_RECORDED, *columns, self._now(), *records)
        return submissions(tasks, rows)

    def _due_soon(self, task: NewTask) -> bool:
        # A time that is given as such is compared by the server only: to announce it needlessly
        # costs a hint.
        return task.scheduled_at is not None or task.delay_seconds <= _SOON_SECONDS


def _is_plain(task: NewTask) -> bool:
    """Whether the task is one row and, at most, part of a record in the audit."""
    return (
        task.key is None
        and task.webhook is None
        and task.group_key is None
        and task.unique_key is None
    )


def distinct(tasks: Sequence[NewTask]) -> Sequence[NewTask]:
    """Return the first task of each id; the database function takes no id twice."""
    if len({task.id.int for task in tasks}) == len(tasks):
        return tasks
    return [*{task.id: task for task in reversed(tasks)}.values()]


def submissions(tasks: Sequence[NewTask], exceptions: Sequence[Any]) -> list[Submission]:
    """Return the answers for a batch, given what of `distinct` did not become a new task."""
    sent = distinct(tasks)
    if sent is tasks and not exceptions:
        return [Submission(task.id) for task in tasks]
    answers = {task.id: Submission(task.id) for task in sent}
    for place, task_id, conflict in exceptions:
        given = sent[place - 1].id
        answers[given] = Submission(task_id, is_new=False, conflict=conflict)
    if sent is tasks:
        return [*answers.values()]
    again = {task_id: replace(answer, is_new=False) for task_id, answer in answers.items()}
    # The first of an id takes its answer, the others find what it left.
    return [answers.pop(task.id, again[task.id]) for task in tasks]


def check_values(tasks: Sequence[NewTask]) -> None:
    """Refuse tasks that were changed after they had been built, which the database would store
    and no worker could take. Raises `InvalidValue`.
    """
    for name in {task.task_type for task in tasks}:
        check_name(name, "task_type")
    for priority in {task.priority for task in tasks}:
        check_priority(priority)
    for seconds in {task.timeout_seconds for task in tasks}:
        check_seconds(seconds, "timeout_seconds")
    for seconds in {task.delay_seconds for task in tasks}:
        check_seconds(seconds, "delay_seconds", DELAY_SECONDS_MAX, zero=True)
    _check_keys(tasks)
    for retries in {task.max_retries for task in tasks}:
        check_whole(retries, "max_retries", 0, RETRIES_MAX)
    instants = [task.scheduled_at for task in tasks if task.scheduled_at is not None]
    if instants:
        check_instant(min(instants), "scheduled_at")
        check_instant(max(instants), "scheduled_at")


def _check_keys(tasks: Sequence[NewTask]) -> None:
    for group_key in {task.group_key for task in tasks} - {None}:
        check_key(group_key, "group_key", "a group key")
    for task in tasks:
        if task.unique_key is not None:
            check_key(plain_key(task.unique_key), "unique_key", "a unique key")
            if task.key is not None:
                raise InvalidValue(BOTH_KEYS, field="unique_key")


def one_row(task: NewTask) -> tuple[Any, ...]:
    """Return a task as the arguments of `submit_one`, but for the time."""
    backoff = backoff_columns(task.backoff)
    return (
        task.id,
        task.task_type,
        task.payload,
        task.queue,
        task.priority,
        task.scheduled_at,
        task.delay_seconds,
        task.timeout_seconds,
        task.max_retries,
        _DEFAULT_KIND if backoff is None else backoff[0],
        None if backoff is None else backoff[1:],
    )


def batch_columns(tasks: Sequence[NewTask]) -> tuple[list[Any] | None, ...]:
    """Return a batch as the arguments of `submit_batch_v2`, but for the time.

    A column in which every task has the default is None, which costs nothing to send.
    """
    return (
        [task.id for task in tasks],
        [task.task_type for task in tasks],
        [task.payload for task in tasks],
        _column([task.queue for task in tasks], DEFAULT_QUEUE),
        _column([task.priority for task in tasks], DEFAULT),
        _column([task.scheduled_at for task in tasks], None),
        _column([task.delay_seconds for task in tasks], 0.0),
        _column([task.timeout_seconds for task in tasks], DEFAULT_TIMEOUT_SECONDS),
        _column([task.max_retries for task in tasks], DEFAULT_MAX_RETRIES),
        *_unzipped(_column([task.backoff for task in tasks], _DEFAULT_BACKOFF)),
        _column([task.key for task in tasks], None),
        _column([task.fingerprint for task in tasks], None),
        _column([task.group_key for task in tasks], None),
        _column([task.unique_key for task in tasks], None),
    )


def record_columns(tasks: Sequence[NewTask]) -> tuple[list[Any], ...] | None:
    """Return the records of a batch in the audit as arguments; None if there are none.

    What one actor hands in from one address at the same time shares a record.
    """
    records: dict[tuple[str, ...], str] = {}
    places: dict[tuple[str, ...], int] = {}
    of_tasks: list[int | None] = []
    for task in tasks:
        origin = task.origin
        if origin is None:
            of_tasks.append(None)
            continue
        who = (origin.actor, origin.namespace, origin.action, origin.address)
        records.setdefault(who, origin.request_id)
        of_tasks.append(places.setdefault(who, len(places) + 1))
    if not records:
        return None
    rows = [(*who, request_id) for who, request_id in records.items()]
    return (of_tasks, *(list(column) for column in zip(*rows, strict=True)))


def _column(values: list[T], default: T) -> list[T] | None:
    # Nearly always the very same object, which is seen without looking into it.
    return None if values.count(default) == len(values) else values


def _unzipped(backoffs: Sequence[Backoff] | None) -> tuple[list[Any] | None, ...]:
    if backoffs is None:
        return None, None, None, None
    empty = (None, None, None, None)
    rows = (backoff_columns(backoff) or empty for backoff in backoffs)
    return tuple(list(values) for values in zip(*rows, strict=True))
