"""Dead letters, queues, workers and figures: what operators look at and switch."""

from collections.abc import Iterator
from uuid import UUID

from msgspec import UnsetType

from mainspring.api.http import Call, Response
from mainspring.api.routes import Route
from mainspring.api.schemas import (
    DeadLetterQuery,
    DiscardIn,
    IdsOut,
    LevelOut,
    QueueOut,
    QueuesOut,
    ReplayIn,
    StatsOut,
    TaskPage,
    WorkersOut,
)
from mainspring.core.access import Principal
from mainspring.core.gateway import Gateway, check_selection
from mainspring.core.lifecycle import task_id_of
from mainspring.core.shedding import by_level
from mainspring.core.submission import encode_payload
from mainspring.domain.errors import TaskNotFound
from mainspring.domain.priority import Level
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.domain.values import check_name
from mainspring.ports.access import Scope
from mainspring.ports.store import DeadLetterFilter, TaskFilter


class OperationRoutes:
    """The handlers for operators."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> Iterator[Route]:
        """Yield the routes for operators."""
        yield from self._of_dead_letters()
        yield from self._of_queues()
        yield Route(
            method="GET",
            path="/v1/workers",
            handler=self.workers,
            scope=Scope.READ,
            summary="List the workers that are alive",
            tag="operations",
            answers={200: WorkersOut},
        )
        yield Route(
            method="GET",
            path="/v1/stats",
            handler=self.stats,
            scope=Scope.READ,
            summary="What is due by level, what is turned away, and how the store answers",
            tag="operations",
            answers={200: StatsOut},
        )

    def _of_dead_letters(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/v1/dead-letters",
            handler=self.dead_letters,
            scope=Scope.READ,
            summary="List the tasks that failed for good",
            tag="dead letters",
            query=DeadLetterQuery,
            answers={200: TaskPage},
        )
        yield Route(
            method="GET",
            path="/v1/dead-letters/{task_id}",
            handler=self.dead_letter,
            scope=Scope.READ,
            summary="Look at a dead letter: its payload, error and every attempt",
            tag="dead letters",
            answers={200: Task},
            problems=(404,),
        )
        yield Route(
            method="POST",
            path="/v1/dead-letters/replay",
            handler=self.replay,
            scope=Scope.ADMIN,
            summary="Run dead letters again, with another payload if one is given",
            tag="dead letters",
            body=ReplayIn,
            answers={200: IdsOut},
            problems=(404, 409),
            action="dead_letter.replay",
        )
        yield Route(
            method="POST",
            path="/v1/dead-letters/discard",
            handler=self.discard,
            scope=Scope.ADMIN,
            summary="Give dead letters up, with a reason",
            tag="dead letters",
            body=DiscardIn,
            answers={200: IdsOut},
            problems=(404, 409),
            action="dead_letter.discard",
        )

    def _of_queues(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/v1/queues",
            handler=self.queues,
            scope=Scope.READ,
            summary="List queues with their counts",
            tag="queues",
            answers={200: QueuesOut},
        )
        yield Route(
            method="POST",
            path="/v1/queues/{name}/pause",
            handler=self.pause,
            scope=Scope.ADMIN,
            summary="Let no task of a queue start until it is resumed",
            tag="queues",
            answers={200: QueueOut},
            action="queue.pause",
        )
        yield Route(
            method="POST",
            path="/v1/queues/{name}/resume",
            handler=self.resume,
            scope=Scope.ADMIN,
            summary="Let the tasks of a queue start again",
            tag="queues",
            answers={200: QueueOut},
            problems=(404,),
            action="queue.resume",
        )

    async def dead_letters(self, call: Call) -> Response:
        """List dead letters."""
        query: DeadLetterQuery = call.query
        which = TaskFilter(status=TaskStatus.FAILED, task_type=query.task_type, queue=query.queue)
        page = await self._gateway.page(call.who, which, query.limit, query.cursor)
        return Response(value=TaskPage(tasks=page.tasks, cursor=page.cursor, partial=page.partial))

    async def dead_letter(self, call: Call) -> Response:
        """Look at one dead letter."""
        task_id = task_id_of(call.path["task_id"])
        task = await self._gateway.task(call.who, task_id)
        if task.status is not TaskStatus.FAILED:
            raise TaskNotFound(f"there is no dead letter {task_id}", field="task_id")
        return Response(value=task)

    async def replay(self, call: Call) -> Response:
        """Run dead letters again."""
        body: ReplayIn = call.body
        text = None if isinstance(body.payload, UnsetType) else encode_payload(body.payload)
        ids = await self._gateway.replay(call.who, _selection(body), text)
        return _ids(ids)

    async def discard(self, call: Call) -> Response:
        """Give dead letters up."""
        body: DiscardIn = call.body
        return _ids(await self._gateway.discard(call.who, _selection(body), body.reason))

    async def queues(self, call: Call) -> Response:
        """List queues."""
        found = await self._gateway.queues(call.who)
        return Response(value=QueuesOut(queues=found, partial=bool(self._gateway.missing())))

    async def pause(self, call: Call) -> Response:
        """Pause a queue."""
        queue = check_name(call.path["name"], "queue")
        await self._gateway.pause(call.who, queue)
        return Response(value=QueueOut(queue=queue, paused=True))

    async def resume(self, call: Call) -> Response:
        """Resume a queue."""
        queue = check_name(call.path["name"], "queue")
        await self._gateway.resume(call.who, queue)
        return Response(value=QueueOut(queue=queue, paused=False))

    async def workers(self, call: Call) -> Response:
        """List workers."""
        found = await self._gateway.workers(call.who)
        return Response(value=WorkersOut(workers=found, partial=bool(self._gateway.missing())))

    async def stats(self, call: Call) -> Response:
        """Sum up the installation, or what one namespace may see of it."""
        return Response(value=await stats_of(self._gateway, call.who))


async def stats_of(gateway: Gateway, who: Principal) -> StatsOut:
    """Sum up the installation, or what one namespace may see of it."""
    shedder = gateway.shedder
    seen = [b for b in shedder.pressure.backlogs if who.sees(b.queue)]
    depths, ages = by_level(seen)
    workers = await gateway.workers(who)
    levels = [
        LevelOut(
            level=level,
            ready=depths[level],
            oldest_seconds=round(ages[level], 3),
            accepted=level not in shedder.refused,
            reason=shedder.refused.get(level),
        )
        for level in Level
    ]
    return StatsOut(
        levels=levels,
        queues=len(await gateway.queues_of(who)),
        dead_letters=await gateway.dead_letter_count(who),
        workers=len(workers),
        slots=sum(worker.slots for worker in workers),
        busy=sum(worker.busy for worker in workers),
        unplaceable=sum(one.count for one in await gateway.unplaceable(who)),
        turned_away={
            level.value: count for level, count in shedder.turned_away.items() if who.sees_all
        },
        store_answers_in_seconds=round(shedder.pressure.seconds, 4),
        partial=bool(gateway.missing()),
    )


def _selection(body: ReplayIn | DiscardIn) -> DeadLetterFilter:
    which = DeadLetterFilter(
        ids=None if isinstance(body.ids, UnsetType) else tuple(dict.fromkeys(body.ids)),
        task_type=None if isinstance(body.task_type, UnsetType) else body.task_type,
    )
    return check_selection(which, all_of_them=body.all)


def _ids(ids: list[UUID]) -> Response:
    return Response(
        value=IdsOut(task_ids=ids, count=len(ids)),
        audit_subject=str(ids[0]) if ids else "none",
        audit_count=len(ids),
    )
