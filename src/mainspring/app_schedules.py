"""The schedules of an app: `app.schedules`, and its blocking twin `app.sync.schedules`."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack

from mainspring.core.declarations import declare
from mainspring.core.registry import Registry, TaskDefinition
from mainspring.core.schedule_options import ScheduleKeywords
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import (
    BackfillResult,
    Change,
    Schedules,
    on_conflict_of,
    preview_of,
)
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import Preview
from mainspring.ports.schedules import Tick
from mainspring.wiring.sessions import Sessions

T = TypeVar("T")


class AppSchedules:
    """What can be done with schedules. Times have an offset from UTC; durations are seconds or a
    timedelta. Errors: `InvalidValue` names the field; `ScheduleNotFound`; `StoreUnavailable`.
    """

    def __init__(self, sessions: Sessions, registry: Registry) -> None:
        self._sessions = sessions
        self._registry = registry

    async def create(
        self,
        name: str,
        task: Any,
        payload: Mapping[str, Any] | None = None,
        *,
        on_conflict: str = "error",
        **options: Unpack[ScheduleKeywords],
    ) -> Schedule:
        """Make a schedule that submits `task`, a registered handler or the name of a task type.

        One of `cron` (an expression or several), `every` and `at` says when; the other options
        are those of `ScheduleKeywords`. A schedule of the same name is, by `on_conflict`, an
        `error` (`ScheduleExists`, unless it is the same already), or `replace`d, or `keep`t.
        """
        task_type = task if isinstance(task, str) else task.name
        change = Change(
            task_type=task_type,
            payload=payload,
            options=options,
            definition=self._definition(task_type),
        )
        return await (await self._use()).create(name, change, on_conflict_of(on_conflict))

    async def update(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        clear: Sequence[str] = (),
        **options: Unpack[ScheduleKeywords],
    ) -> Schedule:
        """Change what is mentioned; `clear` names options that get their default again.

        Only a change of its timetable moves its next time, and then to the first one later than
        now. Runs that exist already are not touched.
        """
        schedules = await self._use()
        known = await schedules.get(name)
        change = Change(
            payload=payload,
            options=options,
            clear=tuple(clear),
            definition=self._definition(known.task_type),
        )
        return await schedules.update(name, change)

    async def get(self, name: str) -> Schedule:
        """Return a schedule as it is now."""
        return await (await self._use()).get(name)

    async def list(self) -> Sequence[Schedule]:
        """Return all schedules in the order of their names."""
        return await (await self._use()).all()

    async def pause(self, name: str, note: str = "") -> Schedule:
        """Let it make no more runs until it is resumed; runs that exist go on."""
        return await (await self._use()).pause(name, note)

    async def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> Schedule:
        """Let it go on. The times of the pause are forgotten, unless `catch_up` hands them to its
        misfire policy.
        """
        return await (await self._use()).resume(name, note, catch_up=catch_up)

    async def trigger(self, name: str, overlap: str | None = None) -> Tick:
        """Run it now, beside its timetable and also while it is paused; `Tick.task_id` is the run.

        `overlap` takes the place of its overlap policy. Raises `RunSkipped` when an unfinished
        run does not allow it.
        """
        return await (await self._use()).trigger(name, overlap)

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int = 1000, dry_run: bool = False
    ) -> BackfillResult:
        """Run its times from `start` (included) to `end` (not included) now, except those that ran
        before. With `dry_run` they are only listed.
        """
        schedules = await self._use()
        return await schedules.backfill(name, start, end, limit=limit, dry_run=dry_run)

    async def delete(self, name: str) -> None:
        """Forget it and its history; runs that exist go on."""
        await (await self._use()).delete(name)

    async def history(
        self, name: str, limit: int = 50, before: datetime | None = None
    ) -> Sequence[Tick]:
        """Return what became of its times, newest first, up to 1,000 before a time."""
        return await (await self._use()).history(name, limit, before)

    async def preview(
        self,
        name: str | None = None,
        *,
        after: datetime | None = None,
        count: int = 10,
        **options: Unpack[ScheduleKeywords],
    ) -> Preview:
        """Return the next times, in the zone and in UTC, with warnings: of a schedule, or of one
        that does not exist yet (`cron=..., timezone=...`).
        """
        schedules = await self._use()
        if name is not None:
            return await schedules.preview(name, after, count)
        moment = await schedules.now() if after is None else after
        return preview_of(options, moment, count)

    async def _use(self) -> Schedules:
        return (await self._sessions.current()).schedules

    def _definition(self, task_type: str) -> TaskDefinition | None:
        return self._registry.get(task_type) if task_type in self._registry else None


class SyncSchedules:
    """`app.sync.schedules`: the verbs of `AppSchedules`, blocking."""

    def __init__(
        self, schedules: AppSchedules, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._schedules = schedules
        self._run = run

    def create(
        self, name: str, task: Any, payload: Mapping[str, Any] | None = None, **options: Any
    ) -> Schedule:
        """See `AppSchedules.create`."""
        return self._do(self._schedules.create(name, task, payload, **options))

    def update(
        self, name: str, payload: Mapping[str, Any] | None = None, **options: Any
    ) -> Schedule:
        """See `AppSchedules.update`."""
        return self._do(self._schedules.update(name, payload, **options))

    def get(self, name: str) -> Schedule:
        """See `AppSchedules.get`."""
        return self._do(self._schedules.get(name))

    def list(self) -> Sequence[Schedule]:
        """See `AppSchedules.list`."""
        return self._do(self._schedules.list())

    def pause(self, name: str, note: str = "") -> Schedule:
        """See `AppSchedules.pause`."""
        return self._do(self._schedules.pause(name, note))

    def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> Schedule:
        """See `AppSchedules.resume`."""
        return self._do(self._schedules.resume(name, note, catch_up=catch_up))

    def trigger(self, name: str, overlap: str | None = None) -> Tick:
        """See `AppSchedules.trigger`."""
        return self._do(self._schedules.trigger(name, overlap))

    def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int = 1000, dry_run: bool = False
    ) -> BackfillResult:
        """See `AppSchedules.backfill`."""
        return self._do(self._schedules.backfill(name, start, end, limit=limit, dry_run=dry_run))

    def delete(self, name: str) -> None:
        """See `AppSchedules.delete`."""
        self._do(self._schedules.delete(name))

    def history(self, name: str, limit: int = 50, before: datetime | None = None) -> Sequence[Tick]:
        """See `AppSchedules.history`."""
        return self._do(self._schedules.history(name, limit, before))

    def preview(self, name: str | None = None, **options: Any) -> Preview:
        """See `AppSchedules.preview`."""
        return self._do(self._schedules.preview(name, **options))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        answer: T = self._run(work)
        return answer


class HasDefinition(Protocol):
    """A registered handler."""

    definition: TaskDefinition


H = TypeVar("H", bound=HasDefinition)


class DeclaredSchedules:
    """The part of an app with which schedules are written in code."""

    registry: Registry

    def schedule(
        self,
        cron: str | Sequence[str] | None = None,
        /,
        *,
        name: str | None = None,
        payload: Mapping[str, Any] | None = None,
        on_conflict: str = "replace",
        **options: Unpack[ScheduleKeywords],
    ) -> Callable[[H], H]:
        """Let a task run on a schedule: `@app.schedule("0 9 * * *", timezone="Europe/Berlin")`
        above `@app.task`.

        Stored when a worker, a scheduler or `mainspring up` with this app starts: a schedule of
        this `name` (default: that of the task type) is created, or by `on_conflict` `replace`d,
        `keep`t or an `error`. `every=` seconds or `at=` a time may take the place of the cron
        expression; see `ScheduleKeywords` for the policies. Raises `InvalidValue`.
        """
        given: dict[str, Any] = {**options}
        if cron is not None:
            given["cron"] = cron

        def declared(task: H) -> H:
            definition = getattr(task, "definition", None)
            if not isinstance(definition, TaskDefinition):
                message = "a schedule needs a task; write @app.schedule(...) above @app.task"
                raise InvalidValue(message, field="task")
            declare(
                self.registry,
                definition,
                name=name,
                payload=payload,
                on_conflict=on_conflict,
                options=given,
            )
            return task

        return declared

    def on_missed_run(self, alert: Callable[[Any], None]) -> Callable[[Any], None]:
        """Call a function for runs of schedules that were missed or late, in the process that
        plans them: `mainspring up` or `mainspring scheduler` with this app. It gets a
        `scheduler.planner.MissedRuns` and must return soon.
        """
        self.registry.missed_run_alerts.append(alert)
        return alert
