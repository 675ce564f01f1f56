"""`core.installation.Installation` behind an API.

What is given is checked here as it would be on the task store, so that the same sentences say what
is wrong with it.
"""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from mainspring.adapters.system import SystemClock
from mainspring.client import operator_requests, task_requests
from mainspring.client.coroutines import Client
from mainspring.client.exchange import PAUSE_SECONDS, TRIES, read_as
from mainspring.client.problems import error_of_item
from mainspring.client.schedule_installation import ApiSchedules
from mainspring.config import Settings
from mainspring.core.lifecycle import PAGE_TASKS
from mainspring.core.limit_view import QueueLimitsView, limits_of
from mainspring.domain.errors import (
    InvalidConfiguration,
    KeyConflict,
    TaskAlreadyFinished,
    TaskNotFound,
    Unavailable,
)
from mainspring.domain.limits import Limit, QueueLimits, check_group_key
from mainspring.domain.placement import base_of, labels_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, NewTask, Submission, Task
from mainspring.domain.values import check_instant, check_name, shown
from mainspring.ports.store import (
    DeadLetterFilter,
    QueueState,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState

_NEW: Final = 201
_NOTHING: Final = msgspec.Raw(b"null")
_FILTERS: Final = (
    "status",
    "ready",
    "task_type",
    "queue",
    "schedule",
    "group_key",
    "since",
    "until",
)


class _Told(Task, frozen=True, kw_only=True):
    """A task as an answer has it: the decoder takes raw JSON or nothing, and not one of both."""

    result: msgspec.Raw = _NOTHING
    progress: msgspec.Raw = _NOTHING

    def task(self) -> Task:
        """Return it as the task store would."""
        fields = {name: getattr(self, name) for name in Task.__struct_fields__}
        for name in ("result", "progress"):
            if bytes(fields[name]) == b"null":
                fields[name] = None
        return Task(**fields)


class _Page(msgspec.Struct):
    tasks: list[_Told]
    cursor: str | None = None
    partial: bool = False


class _Queues(msgspec.Struct):
    queues: list[QueueState]
    partial: bool = False


class _Workers(msgspec.Struct):
    workers: list[WorkerState]
    partial: bool = False


class ApiInstallation:
    """The verbs of people, through an API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.submissions = ApiSubmissions(client)
        self.waiting = ApiWaiting(client)
        self.lifecycle = ApiLifecycle(client)
        self.schedules = ApiSchedules(client)

    def missing(self) -> tuple[str, ...]:
        """Return something if an answer said that it was partial; the API does not name it."""
        return ("a part of the task store",) if self.lifecycle.was_partial else ()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class ApiSubmissions:
    """Submitting through the API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = SystemClock()

    async def submit(self, task: NewTask) -> Submission:
        """Store one task; raises `KeyConflict`."""
        body = _body(task)
        answer = await self._client.submit(body.pop("task_type"), body.pop("payload"), **body)
        return Submission(UUID(answer["task_id"]), answer["is_new"])

    async def attempt_many(self, tasks: Sequence[NewTask]) -> list[Submission | BaseException]:
        """Store tasks, each on its own; those that are turned away for now are sent again, under
        the same keys.
        """
        bodies = [task_requests.with_key(_body(task)) for task in tasks]
        answers: dict[int, Submission | BaseException] = {}
        left = list(range(len(tasks)))
        for attempt in range(TRIES):
            results = await self._client.submit_many([_again(bodies[at]) for at in left])
            for at, result in zip(left, results, strict=True):
                answers[at] = _answer(tasks[at], result)
            left = [at for at in left if isinstance(answers[at], Unavailable)]
            if not left:
                break
            await self._clock.sleep(PAUSE_SECONDS * 2.0**attempt)
        return [answers[at] for at in range(len(tasks))]


class ApiWaiting:
    """Waiting through the API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def wait(self, task_id: UUID, timeout: float | None = None) -> TaskStatus:
        """Return the terminal status of a task once it has one."""
        return TaskStatus((await self._client.wait(task_id, timeout))["status"])


class ApiLifecycle:
    """Tasks, dead letters, queues and workers through the API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.was_partial = False
        """Whether an answer said that something is missing from it."""

    async def get(self, task_id: UUID) -> Task:
        """Return a task."""
        return (await self._client.call(read_as(task_requests.look(task_id), _Told))).task()

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel tasks and answer for each in order."""
        return [await self._cancel(task_id, reason) for task_id in ids]

    async def _cancel(self, task_id: UUID, reason: str | None) -> CancelState:
        try:
            return CancelState(await self._client.cancel(task_id, reason))
        except TaskNotFound:
            return CancelState.NOT_FOUND
        except TaskAlreadyFinished:
            return CancelState.FINISHED

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus:
        """Move a waiting task to another time, or to now."""
        moment = None if at is None else check_instant(at, "at")
        return TaskStatus(await self._client.reschedule(task_id, moment))

    async def replay(self, which: DeadLetterFilter, payload: str | None = None) -> list[UUID]:
        """Reopen dead letters."""
        value = None if payload is None else msgspec.json.decode(payload)
        return await self._client.replay(*(which.ids or ()), payload=value, **_others(which))

    async def discard(self, which: DeadLetterFilter, reason: str) -> list[UUID]:
        """End dead letters as discarded."""
        return await self._client.discard(*(which.ids or ()), reason=reason, **_others(which))

    async def scan(self, which: TaskFilter, limit: int | None = None) -> AsyncIterator[Task]:
        """Yield tasks, newest first, page by page."""
        filters = {name: getattr(which, name) for name in _FILTERS}
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE_TASKS if left is None else min(PAGE_TASKS, left)
            request = read_as(task_requests.page(filters, cursor, size), _Page)
            page = await self._client.call(request)
            self.was_partial = self.was_partial or page.partial
            for told in page.tasks:
                yield told.task()
            cursor = page.cursor
            if cursor is None:
                return
            left = None if left is None else left - len(page.tasks)

    async def queues(self) -> list[QueueState]:
        """Return every queue."""
        found = await self._client.call(read_as(operator_requests.queues(), _Queues))
        self.was_partial = self.was_partial or found.partial
        return found.queues

    async def pause(self, queue: str) -> None:
        """Let no task of a queue start until it is resumed."""
        await self._client.pause_queue(check_name(queue, "queue"))

    async def resume(self, queue: str) -> None:
        """Let the tasks of a queue start again."""
        await self._client.resume_queue(check_name(queue, "queue"))

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both."""
        check_name(queue, "queue")
        bodies = [None if one is None else asdict(one) for one in (whole, group)]
        await self._client.call(operator_requests.limit_queue(queue, *bodies))

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or none."""
        check_name(queue, "queue")
        if limit is None:
            request = operator_requests.unlimit_group(queue, check_group_key(group_key))
        else:
            key = check_group_key(group_key)
            request = operator_requests.limit_group(queue, key, asdict(limit))
        await self._client.call(request)

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue."""
        request = operator_requests.queue_limits(check_name(queue, "queue"))
        return limits_of(await self._client.call(read_as(request, QueueLimitsView)))

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are alive."""
        found = await self._client.call(read_as(operator_requests.workers(), _Workers))
        self.was_partial = self.was_partial or found.partial
        return found.workers


def client_of(settings: Settings, timeout: float) -> Client:
    """Return a client for the API that the settings name."""
    tls = None
    if settings.api_ca_file:
        try:
            tls = ssl.create_default_context(cafile=settings.api_ca_file)
        except OSError as error:
            name = shown(settings.api_ca_file)
            reason = error.strerror or error
            raise InvalidConfiguration(f"api_ca_file {name} cannot be read: {reason}") from None
    return Client(settings.api_url, settings.api_key, timeout, tls=tls)


async def open_installation(settings: Settings) -> ApiInstallation:
    """Return the installation behind the API that the settings name."""
    return ApiInstallation(client_of(settings, 3 * settings.submit_timeout_seconds))


def _body(task: NewTask) -> dict[str, Any]:
    """Return a task in the words of the API."""
    body: dict[str, Any] = {
        "task_type": task.task_type,
        "payload": msgspec.json.decode(task.payload),
        "queue": base_of(task.queue),
        "labels": labels_of(task.queue),
        "priority": task.priority,
        "timeout": task.timeout_seconds,
        "max_retries": task.max_retries,
        "retry_backoff": task_requests.plain(task.backoff),
    }
    for name in ("key", "group_key", "unique_key"):
        if getattr(task, name) is not None:
            body[name] = getattr(task, name)
    if task.webhook is not None:
        body["webhook"] = task_requests.plain(task.webhook)
    if task.scheduled_at is not None:
        body["scheduled_at"] = task.scheduled_at
    elif task.delay_seconds:
        body["delay"] = task.delay_seconds
    return body


def _again(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task whose payload is text already as one to be sent."""
    return {**body, "payload": msgspec.json.decode(body["payload"])}


def _answer(task: NewTask, result: Mapping[str, Any]) -> Submission | BaseException:
    code = result.get("code")
    if code is None:
        return Submission(UUID(result["task_id"]), is_new=result["status"] == _NEW)
    error = error_of_item(code, result["detail"], result.get("field"))
    if isinstance(error, KeyConflict):
        return Submission(task.id, is_new=False, conflict=True)
    return error


def _others(which: DeadLetterFilter) -> dict[str, Any]:
    is_all = which.ids is None and which.task_type is None
    return {"task_type": which.task_type, "everything": is_all}
