"""What happened to a task, in order, read from the task itself.

A task carries its failed attempts and the times of its current state, so its events can be told
again at any moment: whoever lost a stream resumes it from any process, and nothing has to be kept
for that.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from mainspring.domain.ids import EPOCH
from mainspring.domain.status import TERMINAL, WAITING, TaskStatus
from mainspring.domain.task import Task


class EventId(msgspec.Struct, frozen=True, order=True):
    """The place of an event among those of its task."""

    microseconds: int
    rank: int

    def __str__(self) -> str:
        return f"{self.microseconds}-{self.rank}"


BEGINNING: Final = EventId(-1, 0)
_PENDING, _RUNNING, _ATTEMPT_FAILED, _WAITING_AGAIN, _ENDED = range(5)
_DIGITS_MAX: Final = 17


class TaskEvent(msgspec.Struct, frozen=True):
    """One event: its place, its name, and what is told of it."""

    id: EventId
    name: str
    data: dict[str, Any]


def parse_event_id(text: str | None) -> EventId:
    """Read the id of the last event that someone saw; anything else is the beginning."""
    first, dash, second = (text or "").partition("-")
    is_id = first.isdecimal() and second.isdecimal() and text is not None and text.isascii()
    if dash and is_id and len(first) <= _DIGITS_MAX and len(second) == 1:
        return EventId(int(first), int(second))
    return BEGINNING


def events_of(task: Task, after: EventId = BEGINNING) -> list[TaskEvent]:
    """Return the events of a task that came after one of them."""
    told = [_event(task, task.created_at, _PENDING, "pending", {})]
    for attempt in task.attempts:
        about = {"attempt": attempt.attempt, "worker_id": attempt.worker_id}
        if attempt.started_at is not None:
            told.append(_event(task, attempt.started_at, _RUNNING, "running", about))
        if attempt.ended_at is not None:
            more = {**about, "kind": attempt.kind, "error": attempt.error}
            told.append(_event(task, attempt.ended_at, _ATTEMPT_FAILED, "attempt_failed", more))
    told.extend(_current(task))
    found = {event.id: event for event in told if event.id > after}
    return [found[place] for place in sorted(found)]


def _current(task: Task) -> list[TaskEvent]:
    events = []
    running = {"attempt": task.attempt_count, "worker_id": task.worker_id}
    last_end = max((a.ended_at for a in task.attempts if a.ended_at is not None), default=None)
    is_new_start = task.started_at is not None and (last_end is None or task.started_at > last_end)
    if is_new_start and task.started_at is not None and task.attempt_count > 0:
        events.append(_event(task, task.started_at, _RUNNING, "running", running))
    if task.status in WAITING and last_end is not None:
        after: dict[str, Any] = {"scheduled_at": task.scheduled_at}
        events.append(_event(task, last_end, _WAITING_AGAIN, task.status, after))
    if task.status in TERMINAL and task.completed_at is not None:
        end: dict[str, Any] = {"result": task.result}
        if task.status is not TaskStatus.COMPLETED:
            end = {"error": task.last_error, "reason": task.reason}
        events.append(_event(task, task.completed_at, _ENDED, task.status, end))
    return events


def _event(task: Task, at: datetime, rank: int, name: str, more: dict[str, Any]) -> TaskEvent:
    microseconds = (at - EPOCH) // timedelta(microseconds=1)
    data = {"task_id": task.task_id, "event": str(name), "at": at, **more}
    return TaskEvent(EventId(microseconds, rank), str(name), data)
