"""Schedules: make, look, change, pause, run, delete."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mainspring.api.http import Call, Response
from mainspring.api.routes import Route
from mainspring.api.schedule_schemas import (
    BackfillIn,
    BackfillOut,
    DeletedOut,
    HistoryQuery,
    OptionsIn,
    PauseIn,
    PreviewIn,
    ResumeIn,
    ScheduleChangeIn,
    ScheduleIn,
    SchedulesOut,
    TicksOut,
    TriggerIn,
)
from mainspring.core.intake import backoff_of
from mainspring.core.schedule_gateway import ScheduleGateway
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import Change, preview_of
from mainspring.domain.schedule import Preview
from mainspring.domain.values import check_name, parse_instant
from mainspring.ports.access import Scope
from mainspring.ports.schedules import Tick

_NO_OPTIONS: Final = frozenset(
    {"name", "task_type", "payload", "on_conflict", "clear", "after", "count", "retry_backoff"}
)
_TAG: Final = "schedules"


class ScheduleRoutes:
    """The handlers of schedules."""

    def __init__(self, gateway: ScheduleGateway) -> None:
        self._gateway = gateway

    def routes(self) -> Iterator[Route]:
        """Yield the routes of schedules."""
        yield Route(
            method="POST",
            path="/v1/schedules",
            handler=self.create,
            scope=Scope.ADMIN,
            summary="Make a schedule",
            tag=_TAG,
            body=ScheduleIn,
            answers={201: Schedule, 200: Schedule},
            problems=(409, 429),
            action="schedule.create",
        )
        yield Route(
            method="GET",
            path="/v1/schedules",
            handler=self.all,
            scope=Scope.READ,
            summary="List schedules with their next times",
            tag=_TAG,
            answers={200: SchedulesOut},
        )
        yield Route(
            method="POST",
            path="/v1/schedules/preview",
            handler=self.preview,
            scope=Scope.READ,
            summary="The next times of a timetable, with warnings",
            tag=_TAG,
            body=PreviewIn,
            answers={200: Preview},
        )
        yield from self._of_one()
        yield from self._switches()

    def _of_one(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/v1/schedules/{name}",
            handler=self.get,
            scope=Scope.READ,
            summary="Look at a schedule",
            tag=_TAG,
            answers={200: Schedule},
        )
        yield Route(
            method="PATCH",
            path="/v1/schedules/{name}",
            handler=self.update,
            scope=Scope.ADMIN,
            summary="Change a schedule; what is not given stays",
            tag=_TAG,
            body=ScheduleChangeIn,
            answers={200: Schedule},
            action="schedule.update",
        )
        yield Route(
            method="DELETE",
            path="/v1/schedules/{name}",
            handler=self.delete,
            scope=Scope.ADMIN,
            summary="Forget a schedule; its runs go on",
            tag=_TAG,
            answers={200: DeletedOut},
            action="schedule.delete",
        )
        yield Route(
            method="GET",
            path="/v1/schedules/{name}/history",
            handler=self.history,
            scope=Scope.READ,
            summary="What became of the nominal times of a schedule",
            tag=_TAG,
            query=HistoryQuery,
            answers={200: TicksOut},
        )

    def _switches(self) -> Iterator[Route]:
        yield Route(
            method="POST",
            path="/v1/schedules/{name}/pause",
            handler=self.pause,
            scope=Scope.ADMIN,
            summary="Let a schedule make no more runs until it is resumed",
            tag=_TAG,
            body=PauseIn,
            body_required=False,
            answers={200: Schedule},
            action="schedule.pause",
        )
        yield Route(
            method="POST",
            path="/v1/schedules/{name}/resume",
            handler=self.resume,
            scope=Scope.ADMIN,
            summary="Let a schedule go on",
            tag=_TAG,
            body=ResumeIn,
            body_required=False,
            answers={200: Schedule},
            action="schedule.resume",
        )
        yield Route(
            method="POST",
            path="/v1/schedules/{name}/trigger",
            handler=self.trigger,
            scope=Scope.ADMIN,
            summary="Run a schedule now, beside its timetable",
            tag=_TAG,
            body=TriggerIn,
            body_required=False,
            answers={200: Tick},
            problems=(409,),
            action="schedule.trigger",
        )
        yield Route(
            method="POST",
            path="/v1/schedules/{name}/backfill",
            handler=self.backfill,
            scope=Scope.ADMIN,
            summary="Run nominal times of the past now, except those that ran",
            tag=_TAG,
            body=BackfillIn,
            answers={200: BackfillOut},
            action="schedule.backfill",
        )

    async def create(self, call: Call) -> Response:
        """Make a schedule."""
        body: ScheduleIn = call.body
        change = _change(body, body.task_type)
        made, is_new = await self._gateway.create(call.who, body.name, change, body.on_conflict)
        return Response(status=201 if is_new else 200, value=made, audit_subject=body.name)

    async def all(self, call: Call) -> Response:
        """List schedules."""
        found = await self._gateway.looking(call.who).all()
        is_partial = bool(self._gateway.missing())
        return Response(value=SchedulesOut(schedules=found, partial=is_partial))

    async def get(self, call: Call) -> Response:
        """Look at one schedule."""
        return Response(value=await self._gateway.looking(call.who).get(_name(call)))

    async def update(self, call: Call) -> Response:
        """Change one schedule."""
        body: ScheduleChangeIn = call.body
        change = _change(body, body.task_type, tuple(body.clear or ()))
        return Response(value=await self._gateway.changing(call.who).update(_name(call), change))

    async def delete(self, call: Call) -> Response:
        """Forget one schedule."""
        name = _name(call)
        await self._gateway.changing(call.who).delete(name)
        return Response(value=DeletedOut(name=name))

    async def pause(self, call: Call) -> Response:
        """Pause one schedule."""
        use = self._gateway.changing(call.who)
        return Response(value=await use.pause(_name(call), call.body.note))

    async def resume(self, call: Call) -> Response:
        """Resume one schedule."""
        body: ResumeIn = call.body
        use = self._gateway.changing(call.who)
        resumed = await use.resume(_name(call), body.note, catch_up=body.catch_up)
        return Response(value=resumed)

    async def trigger(self, call: Call) -> Response:
        """Run one schedule now."""
        tick = await self._gateway.changing(call.who).trigger(_name(call), call.body.overlap)
        return Response(value=tick)

    async def backfill(self, call: Call) -> Response:
        """Run times of the past."""
        body: BackfillIn = call.body
        result = await self._gateway.changing(call.who).backfill(
            _name(call),
            parse_instant(body.start, "start"),
            parse_instant(body.end, "end"),
            limit=body.limit,
            dry_run=body.dry_run,
        )
        out = BackfillOut(
            runs=list(result.runs),
            nominal=[run.nominal for run in result.runs],
            started=list(result.started),
            truncated=result.truncated,
            dry_run=result.dry_run,
        )
        return Response(value=out, audit_subject=_name(call), audit_count=len(out.started))

    async def preview(self, call: Call) -> Response:
        """Look ahead."""
        body: PreviewIn = call.body
        if body.after is not None:
            moment = parse_instant(body.after, "after")
        else:
            moment = await self._gateway.looking(call.who).now()
        return Response(value=preview_of(_options(body), moment, body.count))

    async def history(self, call: Call) -> Response:
        """List ticks."""
        query: HistoryQuery = call.query
        before = None if query.before is None else parse_instant(query.before, "before")
        use = self._gateway.looking(call.who)
        return Response(value=TicksOut(ticks=await use.history(_name(call), query.limit, before)))


def _name(call: Call) -> str:
    return check_name(call.path["name"], "name")


def _change(body: OptionsIn, task_type: str | None, clear: tuple[str, ...] = ()) -> Change:
    return Change(task_type=task_type, payload=body.payload, options=_options(body), clear=clear)


def _options(body: msgspec.Struct) -> dict[str, Any]:
    """Return what was given of the options, in the words of the core."""
    given = msgspec.structs.asdict(body)
    options = {
        name: value
        for name, value in given.items()
        if value is not None and name not in _NO_OPTIONS
    }
    backoff = getattr(body, "retry_backoff", None)
    if backoff is not None:
        options["backoff"] = backoff_of(msgspec.to_builtins(backoff), "retry_backoff")
    if "webhook" in options:
        options["webhook"] = msgspec.to_builtins(options["webhook"])
    return options
