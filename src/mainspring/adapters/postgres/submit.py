"""Submitting tasks."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.rows import backoff_columns
from mainspring.adapters.postgres.webhooks import webhook_document
from mainspring.domain.priority import DEFAULT
from mainspring.domain.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    NewTask,
    Submission,
)
from mainspring.ports.hooks import HookPoint

T = TypeVar("T")

_SUBMIT: Final = QUERIES["submit"]
_SUBMIT_RECORDED: Final = QUERIES["submit_recorded"]
_SUBMIT_HOOKED: Final = QUERIES["submit_hooked"]
_NO_RECORDS: Final[tuple[list[Any], ...]] = ([],) * 6
_SOON_SECONDS: Final = 1.0
"""Whoever waits looks by itself for what is due later than this."""


class Submitting(StorePart):
    """`TaskStore.submit`."""

    async def submit(self, tasks: Sequence[NewTask]) -> list[Submission]:
        """Store tasks durably and answer for each in order."""
        if not tasks:
            return []
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
        await self._hooks.reach(HookPoint.SUBMIT_AFTER_COMMIT)
        if any(self._due_soon(task) for task in tasks):
            self._announcer.ready()
        return submissions(tasks, rows)

    def _due_soon(self, task: NewTask) -> bool:
        # A time that is given as such is compared by the server only: to announce it needlessly
        # costs a hint.
        return task.scheduled_at is not None or task.delay_seconds <= _SOON_SECONDS


def distinct(tasks: Sequence[NewTask]) -> Sequence[NewTask]:
    """Return the first task of each id; the database function takes no id twice."""
    first = {task.id: task for task in reversed(tasks)}
    return tasks if len(first) == len(tasks) else [*first.values()]


def submissions(tasks: Sequence[NewTask], exceptions: Iterable[Any]) -> list[Submission]:
    """Return the answers for a batch, given what of `distinct` did not become a new task."""
    sent = distinct(tasks)
    answers = {task.id: Submission(task.id) for task in sent}
    for place, task_id, conflict in exceptions:
        given = sent[place - 1].id
        answers[given] = Submission(task_id, is_new=False, conflict=conflict)
    if len(sent) == len(tasks):
        return [*answers.values()]
    again = {task_id: replace(answer, is_new=False) for task_id, answer in answers.items()}
    # The first of an id takes its answer, the others find what it left.
    return [answers.pop(task.id, again[task.id]) for task in tasks]


def batch_columns(tasks: Sequence[NewTask]) -> tuple[list[Any] | None, ...]:
    """Return a batch as the arguments of `submit_batch_v1`, but for the time.

    A column in which every task has the default is None, which costs nothing to send.
    """
    backoffs = _column(tasks, lambda task: backoff_columns(task.backoff), None)
    kinds, bases, multipliers, maxima = _unzipped(backoffs)
    return (
        [task.id for task in tasks],
        [task.task_type for task in tasks],
        [task.payload for task in tasks],
        _column(tasks, lambda task: task.queue, DEFAULT_QUEUE),
        _column(tasks, lambda task: task.priority, DEFAULT),
        _column(tasks, lambda task: task.scheduled_at, None),
        _column(tasks, lambda task: task.delay_seconds, 0.0),
        _column(tasks, lambda task: task.timeout_seconds, DEFAULT_TIMEOUT_SECONDS),
        _column(tasks, lambda task: task.max_retries, DEFAULT_MAX_RETRIES),
        kinds,
        bases,
        multipliers,
        maxima,
        _column(tasks, lambda task: task.key, None),
        _column(tasks, lambda task: task.fingerprint, None),
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


def _column(tasks: Sequence[NewTask], get: Callable[[NewTask], T], default: T) -> list[T] | None:
    values = [get(task) for task in tasks]
    return None if all(value == default for value in values) else values


def _unzipped(
    backoffs: Sequence[tuple[str, float, float, float] | None] | None,
) -> tuple[list[Any] | None, ...]:
    if backoffs is None:
        return None, None, None, None
    empty = (None, None, None, None)
    return tuple(list(values) for values in zip(*(row or empty for row in backoffs), strict=True))
