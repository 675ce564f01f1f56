"""Tasks: submit, look, cancel, move, watch."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from mainspring.api.batches import batch_items, batch_results
from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.errors import MalformedRequest
from mainspring.api.http import Call, Response
from mainspring.api.limits import (
    BATCH_BYTES_MAX,
    JSON_TYPE,
    NDJSON_TYPE,
    decode_body,
)
from mainspring.api.performing import in_time
from mainspring.api.routes import PATIENCE_SECONDS, Recording, Route
from mainspring.api.schemas import (
    BatchIn,
    BatchOut,
    CancelIn,
    CancelOut,
    RescheduleIn,
    StatusOut,
    SubmittedOut,
    TaskIn,
    TaskPage,
    TaskQuery,
)
from mainspring.api.streams import STILL_HERE, STREAM_TYPE
from mainspring.core.access import Principal
from mainspring.core.following import follow
from mainspring.core.gateway import LEAST_SECONDS, SUBMIT_SECONDS, Gateway
from mainspring.core.lifecycle import STALENESS_SECONDS_MAX, task_id_of
from mainspring.core.task_events import EventId, TaskEvent, parse_event_id
from mainspring.domain.errors import InvalidValue
from mainspring.domain.namespaces import plain_key, plain_queue
from mainspring.domain.placement import labels_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import NewTask, Task
from mainspring.domain.values import check_key, check_seconds, parse_instant, shown
from mainspring.ports.access import Scope
from mainspring.ports.store import TaskFilter

_RECONNECT_MILLISECONDS: Final = 1000
_KEY_HEADER: Final = (
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~][ -~]*$"},
    "Submitting the same task twice under one key makes one task; the same as the field `key`.",
)
_STALENESS: Final = (
    "Max-Staleness",
    {"type": "number", "minimum": 0, "maximum": STALENESS_SECONDS_MAX},
    "How many seconds old the answer may be, which lets a read replica give it. Default: 0.",
)
_LAST_EVENT: Final = (
    "Last-Event-ID",
    {"type": "string"},
    "Go on after this event; anything that is no id of an event is the beginning.",
)


class TaskRoutes:
    """The handlers of tasks."""

    def __init__(self, gateway: Gateway, doorkeeper: Doorkeeper) -> None:
        self._gateway = gateway
        self._doorkeeper = doorkeeper

    def routes(self) -> Iterator[Route]:
        """Yield the routes of tasks."""
        yield from self._of_submission()
        yield from self._of_looking()
        yield from self._of_changes()

    def _of_submission(self) -> Iterator[Route]:
        yield Route(
            method="POST",
            path="/v1/tasks",
            handler=self.submit,
            scope=Scope.SUBMIT,
            summary="Submit a task; it is on disk when the answer comes",
            tag="tasks",
            body=TaskIn,
            raw_body=True,
            header_parameters=(_KEY_HEADER,),
            answers={201: SubmittedOut, 200: SubmittedOut},
            patience_seconds=None,
            problems=(409, 429, 503),
            action="task.submit",
            recording=Recording.WITH_TASKS,
        )
        yield Route(
            method="POST",
            path="/v1/tasks/batch",
            handler=self.submit_batch,
            scope=Scope.SUBMIT,
            summary="Submit up to 10,000 tasks, each on its own",
            tag="tasks",
            body=BatchIn,
            raw_body=True,
            body_types=(JSON_TYPE, NDJSON_TYPE),
            body_bytes_max=BATCH_BYTES_MAX,
            patience_seconds=None,
            answers={207: BatchOut},
            problems=(429, 503),
            action="task.submit_batch",
            recording=Recording.WITH_TASKS,
        )

    def _of_looking(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/v1/tasks",
            handler=self.page,
            scope=Scope.READ,
            summary="List tasks, newest first",
            tag="tasks",
            query=TaskQuery,
            answers={200: TaskPage},
        )
        yield Route(
            method="GET",
            path="/v1/tasks/{task_id}",
            handler=self.get,
            scope=Scope.READ,
            summary="Look at a task and its attempts",
            tag="tasks",
            header_parameters=(_STALENESS,),
            answers={200: Task},
            problems=(404,),
        )
        yield Route(
            method="GET",
            path="/v1/tasks/{task_id}/events",
            handler=self.events,
            scope=Scope.READ,
            summary="Watch a task until it ends: server-sent events that can be resumed",
            tag="tasks",
            header_parameters=(_LAST_EVENT,),
            answers={200: str},
            answer_type=STREAM_TYPE,
            problems=(404,),
        )

    def _of_changes(self) -> Iterator[Route]:
        yield Route(
            method="POST",
            path="/v1/tasks/{task_id}/cancel",
            handler=self.cancel,
            scope=Scope.SUBMIT,
            summary="Cancel a task that waits, or ask a running one to stop",
            tag="tasks",
            body=CancelIn,
            body_required=False,
            answers={200: CancelOut},
            problems=(404, 409),
            action="task.cancel",
        )
        yield Route(
            method="POST",
            path="/v1/tasks/{task_id}/reschedule",
            handler=self.reschedule,
            scope=Scope.SUBMIT,
            summary="Move a waiting task to another time",
            tag="tasks",
            body=RescheduleIn,
            answers={200: StatusOut},
            problems=(404, 409),
            action="task.reschedule",
        )
        yield Route(
            method="POST",
            path="/v1/tasks/{task_id}/run-now",
            handler=self.run_now,
            scope=Scope.SUBMIT,
            summary="Let a waiting task run now",
            tag="tasks",
            answers={200: StatusOut},
            problems=(404, 409),
            action="task.run_now",
        )

    async def submit(self, call: Call) -> Response:
        """Store one task."""
        given = decode_body(call.body) if isinstance(call.body, bytes) else call.body
        key = _key_of(call)
        began = asyncio.get_running_loop().time() - call.spent_seconds
        task, stored = await self._gateway.submit(
            call.who, given, key, call.origin, SUBMIT_SECONDS - call.spent_seconds
        )
        if stored.is_new:
            out = _as_new(task)
        else:
            left = began + PATIENCE_SECONDS - asyncio.get_running_loop().time()
            found = self._gateway.task(call.who, stored.id, Scope.SUBMIT)
            out = _as_found(await in_time(found, max(LEAST_SECONDS, left)), task)
        return Response(
            status=201 if stored.is_new else 200,
            value=out,
            headers=[(b"location", f"/v1/tasks/{stored.id}".encode())],
        )

    async def submit_batch(self, call: Call) -> Response:
        """Store many tasks and answer for each."""
        items = call.body
        if isinstance(items, bytes):
            items = batch_items(items, call.content_type)
        outcomes = await self._gateway.submit_batch(
            call.who, items, call.origin, SUBMIT_SECONDS - call.spent_seconds
        )
        results = batch_results(outcomes)
        stored = sum(result.code is None for result in results)
        out = BatchOut(results=results, stored=stored, failed=len(results) - stored)
        return Response(status=207, value=out)

    async def page(self, call: Call) -> Response:
        """List tasks."""
        query: TaskQuery = call.query
        which = TaskFilter(
            status=query.status,
            ready=query.ready,
            task_type=query.task_type,
            queue=query.queue,
            schedule=query.schedule,
            group_key=query.group_key,
            since=_instant(query.since, "since"),
            until=_instant(query.until, "until"),
        )
        page = await self._gateway.page(call.who, which, query.limit, query.cursor)
        return Response(value=TaskPage(tasks=page.tasks, cursor=page.cursor, partial=page.partial))

    async def get(self, call: Call) -> Response:
        """Look at one task."""
        bound = _staleness(call)
        task = await self._gateway.task(call.who, _task_id(call), max_staleness=bound)
        return Response(value=task)

    async def cancel(self, call: Call) -> Response:
        """Cancel one task."""
        task_id = _task_id(call)
        state = await self._gateway.cancel(call.who, task_id, call.body.reason)
        return Response(value=CancelOut(task_id=task_id, status=state))

    async def reschedule(self, call: Call) -> Response:
        """Move one task."""
        at = parse_instant(call.body.scheduled_at, "scheduled_at")
        return await self._move(call, at)

    async def run_now(self, call: Call) -> Response:
        """Let one task run now."""
        return await self._move(call, None)

    async def events(self, call: Call) -> Response:
        """Watch one task."""
        task_id = _task_id(call)
        # Looked at before the stream begins, so that a missing task is a plain 404.
        task = await self._gateway.task(call.who, task_id)
        last = call.headers.get(b"last-event-id", b"").decode("latin-1")
        stream = self._stream(call.who, task, parse_event_id(last))
        return Response(stream=stream, content_type=STREAM_TYPE)

    async def _move(self, call: Call, at: datetime | None) -> Response:
        task_id = _task_id(call)
        status = await self._gateway.reschedule(call.who, task_id, at)
        return Response(value=StatusOut(task_id=task_id, status=status))

    async def _stream(
        self, who: Principal, task: Task, last: EventId
    ) -> AsyncGenerator[bytes, None]:
        yield f"retry: {_RECONNECT_MILLISECONDS}\n\n".encode()
        with self._doorkeeper.stream(who) as stay:
            followed = follow(self._gateway, who, task, stay, last)
            async with aclosing(followed) as events:
                async for event in events:
                    yield STILL_HERE if event is None else _frame(event)


def _as_new(task: NewTask) -> SubmittedOut:
    return SubmittedOut(
        task_id=task.id,
        task_type=task.task_type,
        queue=plain_queue(task.queue),
        labels=labels_of(task.queue),
        priority=task.priority,
        status=TaskStatus.PENDING,
        is_new=True,
        key=plain_key(task.key),
        group_key=task.group_key,
        unique_key=plain_key(task.unique_key),
    )


def _as_found(found: Task, task: NewTask) -> SubmittedOut:
    """Return the task of before; one with the same unique key may be quite another."""
    return SubmittedOut(
        task_id=found.task_id,
        task_type=found.task_type,
        queue=found.queue,
        labels=found.labels,
        priority=found.priority,
        status=found.status,
        is_new=False,
        key=plain_key(task.key),
        group_key=found.group_key,
        unique_key=found.unique_key,
    )


def _frame(event: TaskEvent) -> bytes:
    data = msgspec.json.encode(event.data)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        str(event.id).encode(),
        event.name.encode(),
        data,
    )


def _key_of(call: Call) -> str | None:
    given = call.headers.get(b"idempotency-key")
    if given is None:
        return None
    try:
        return check_key(given.decode(), "Idempotency-Key")
    except UnicodeDecodeError:
        raise MalformedRequest("the header Idempotency-Key is not text in UTF-8") from None


def _task_id(call: Call) -> UUID:
    return task_id_of(call.path["task_id"])


def _instant(text: str | None, field: str) -> datetime | None:
    return None if text is None else parse_instant(text, field)


def _staleness(call: Call) -> float:
    if "max_staleness" in call.fields:
        given = call.fields["max_staleness"]
        return check_seconds(given, "max_staleness", STALENESS_SECONDS_MAX, zero=True)
    text = call.headers.get(b"max-staleness", b"0").decode("latin-1")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= STALENESS_SECONDS_MAX:
        raise InvalidValue(
            f"Max-Staleness is {shown(text)}; give a number of seconds from 0 to "
            f"{STALENESS_SECONDS_MAX:,.0f}",
            field="Max-Staleness",
        )
    return seconds
