"""The queries and subscriptions: each one verb of the gateways, as in the REST API."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import strawberry
from strawberry.tools import create_type
from strawberry.types import Info

from mainspring.api.converting import converted
from mainspring.api.graphql.asked import Asked
from mainspring.api.graphql.types import Types
from mainspring.api.operations import stats_of
from mainspring.api.schedule_schemas import HistoryQuery
from mainspring.api.schemas import DeadLetterQuery, StatsOut, TaskPage, TaskQuery
from mainspring.core.following import follow
from mainspring.core.limit_view import QueueLimitsView, view_of
from mainspring.core.schedule_view import Schedule
from mainspring.core.task_events import TaskEvent, parse_event_id
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.domain.values import check_name
from mainspring.ports.schedules import Tick
from mainspring.ports.store import (
    QueueState,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState

Request = Info[Asked, None]
TYPES: Final = Types()


class TaskEventOut(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a task; a subscription goes on after an event with its `id`."""

    id: str
    event: str
    at: datetime
    data: Any


async def tasks(
    info: Request,
    *,
    status: TaskStatus | None = None,
    ready: bool | None = None,
    task_type: str | None = None,
    queue: str | None = None,
    schedule: str | None = None,
    group_key: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> TaskPage:
    """Return a page of tasks."""
    query = converted(
        {
            "task_type": task_type,
            "queue": queue,
            "schedule": schedule,
            "group_key": group_key,
            "cursor": cursor,
            "limit": limit,
        },
        TaskQuery,
    )
    which = TaskFilter(
        status=status,
        ready=ready,
        task_type=query.task_type,
        queue=query.queue,
        schedule=query.schedule,
        group_key=query.group_key,
        since=since,
        until=until,
    )
    asked = info.context
    page = await asked.gateway.page(asked.who, which, query.limit, query.cursor)
    return TaskPage(tasks=page.tasks, cursor=page.cursor, partial=page.partial)


async def task(info: Request, id: UUID) -> Task:  # noqa: A002 - the name in the schema
    """Return a task."""
    return await info.context.gateway.task(info.context.who, id)


async def dead_letters(
    info: Request,
    *,
    task_type: str | None = None,
    queue: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> TaskPage:
    """Return a page of dead letters."""
    given = {"task_type": task_type, "queue": queue, "cursor": cursor, "limit": limit}
    query = converted(given, DeadLetterQuery)
    which = TaskFilter(status=TaskStatus.FAILED, task_type=query.task_type, queue=query.queue)
    asked = info.context
    page = await asked.gateway.page(asked.who, which, query.limit, query.cursor)
    return TaskPage(tasks=page.tasks, cursor=page.cursor, partial=page.partial)


async def schedules(info: Request) -> list[Schedule]:
    """Return the schedules."""
    return await info.context.schedules.looking(info.context.who).all()


async def schedule(info: Request, name: str) -> Schedule:
    """Return a schedule."""
    use = info.context.schedules.looking(info.context.who)
    return await use.get(check_name(name, "name"))


async def history(
    info: Request, name: str, before: datetime | None = None, limit: int = 50
) -> list[Tick]:
    """Return ticks of a schedule."""
    query = converted({"limit": limit}, HistoryQuery)
    use = info.context.schedules.looking(info.context.who)
    return await use.history(check_name(name, "name"), query.limit, before)


async def queues(info: Request) -> list[QueueState]:
    """Return the queues."""
    return await info.context.gateway.queues(info.context.who)


async def queue_limits(info: Request, name: str) -> QueueLimitsView:
    """Return the limits of a queue."""
    return view_of(await info.context.gateway.limits(info.context.who, name))


async def workers(info: Request) -> list[WorkerState]:
    """Return the workers."""
    return await info.context.gateway.workers(info.context.who)


async def stats(info: Request) -> StatsOut:
    """Return the figures."""
    return await stats_of(info.context.gateway, info.context.who)


async def task_events(
    info: Request,
    id: UUID,  # noqa: A002 - the name in the schema
    after: str | None = None,
) -> AsyncGenerator[TaskEventOut, None]:
    """Follow a task."""
    asked = info.context
    # Looked at first, so that a missing task is an error and not a stream of nothing.
    found = await asked.gateway.task(asked.who, id)
    last = parse_event_id(after)
    followed = follow(asked.gateway, asked.who, found, asked.stay, last)
    async with aclosing(followed) as events:
        async for event in events:
            if event is not None:
                yield _event(event)


def _event(event: TaskEvent) -> TaskEventOut:
    at = event.data["at"]
    return TaskEventOut(id=str(event.id), event=event.name, at=at, data=event.data)


def _field(resolver: Callable[..., Any], kind: Any, description: str) -> Any:
    return strawberry.field(resolver=resolver, graphql_type=kind, description=description)


def _followed(resolver: Callable[..., Any], kind: Any, description: str) -> Any:
    return strawberry.subscription(resolver=resolver, graphql_type=kind, description=description)


Query: Final = create_type(
    "Query",
    [
        _field(tasks, TYPES.maybe(TaskPage), "Tasks, newest first, page by page."),
        _field(task, TYPES.maybe(Task), "A task and its attempts."),
        _field(
            dead_letters,
            TYPES.maybe(TaskPage),
            "The tasks that failed for good, newest first, page by page.",
        ),
        _field(schedules, TYPES.many(Schedule), "All schedules, by name."),
        _field(schedule, TYPES.maybe(Schedule), "A schedule."),
        _field(
            history,
            TYPES.many(Tick),
            "What became of the nominal times of a schedule, newest first.",
        ),
        _field(queues, TYPES.many(QueueState), "Queues and their counts."),
        _field(
            queue_limits,
            TYPES.maybe(QueueLimitsView),
            "The limits of a queue and of its groups.",
        ),
        _field(workers, TYPES.many(WorkerState), "Workers that are alive."),
        _field(
            stats,
            TYPES.maybe(StatsOut),
            "What is due by level, what is turned away, and how the store answers.",
        ),
    ],
    description="What can be looked at. Each needs a key with the scope `read`.",
)

Subscription: Final = create_type(
    "Subscription",
    [
        _followed(
            task_events,
            TYPES.stream(TaskEventOut),
            "What happens to a task, after an event if one is named, until it ends.",
        ),
    ],
    description="What can be followed, with `Accept: text/event-stream`.",
)
