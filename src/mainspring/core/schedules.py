"""What people do with schedules: make, look, change, pause, trigger, backfill, delete.

Every change is computed from what is stored and saved over that very revision. When somebody else,
such as the planner, changed the schedule meanwhile, it is read and computed again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from mainspring.core.planning import (
    planned_backfill,
    planned_by_hand,
    spec_of,
    state_of,
    with_state,
)
from mainspring.core.registry import TaskDefinition
from mainspring.core.schedule_options import (
    check_replacing,
    merged,
    spec_changes,
    template_of,
)
from mainspring.core.schedule_view import Schedule, schedule_view
from mainspring.domain.errors import (
    InvalidValue,
    RunSkipped,
    ScheduleExists,
    ScheduleNotFound,
    StoreUnavailable,
)
from mainspring.domain.schedule import (
    BackfillRun,
    OverlapPolicy,
    OverlapRule,
    Preview,
    ScheduleSpec,
    SkipReason,
    apply_edit,
    backfill,
    create,
    dump_spec,
    load_spec,
    pause,
    preview,
    resume,
)
from mainspring.domain.values import check_instant, check_name, shown
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.schedules import (
    ScheduleBook,
    StoredSchedule,
    TaskTemplate,
    Tick,
)

T = TypeVar("T")

_TRIES: Final = 25
_PAUSE_SECONDS: Final = 0.02
_PAGE: Final = 500
_INSTANT: Final = timedelta(microseconds=1)
_SAME_INSTANT: Final = 100
"""Runs by hand that may fall into one instant; each has a nominal time of its own."""

_BACKFILL_CHUNK: Final = 500
HISTORY_MAX: Final = 1000


class OnConflict(StrEnum):
    """What becomes of a schedule of the same name."""

    REPLACE = "replace"
    """It gets the new definition; its place in the timetable is kept where that stays the same."""

    KEEP = "keep"
    """It stays as it is."""

    ERROR = "error"
    """`ScheduleExists` is raised, unless it is the same already."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different about a schedule."""

    task_type: str | None = None
    payload: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = {}
    clear: tuple[str, ...] = ()
    definition: TaskDefinition | None = None


class BackfillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill did, or would do."""

    runs: tuple[BackfillRun, ...]
    """The nominal times of the span, oldest first, each with the one before."""

    started: tuple[datetime, ...]
    """Those that became tasks: all but those that had run before, and those for which a live task
    has their unique key, which are recorded as skipped. Empty for a dry run."""

    truncated: bool
    """The span holds more times than the limit; go on after the last one."""

    dry_run: bool


class Schedules:
    """Use cases on schedules."""

    def __init__(self, store: ScheduleBook, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def create(
        self, name: str, change: Change, on_conflict: OnConflict = OnConflict.ERROR
    ) -> Schedule:
        """Make a schedule, or do with the one of that name what `on_conflict` says."""
        check_name(name, "name")
        spec = load_spec(merged({}, spec_changes(change.options)))
        template = template_of(
            change.task_type or "", change.payload, change.options, change.definition
        )
        check_replacing(spec.overlap, template)

        async def step() -> Schedule | None:
            known = await self._store.get_schedule(name)
            if known is not None:
                return await self._meet(known, spec, template, on_conflict)
            now = await self._store.store_time()
            # The name decides the partition, so that it is unique within one shard.
            schedule_id = self._ids.task_id(name)
            state = create(str(schedule_id), spec, now)
            # Made when its times begin, however long it takes to be stored.
            blank = StoredSchedule(
                id=schedule_id, name=name, template=template, spec="", created_at=now
            )
            stored = with_state(blank, state, now)
            return await self.get(name) if await self._store.create_schedule(stored) else None

        return await self._persist(name, step)

    async def update(self, name: str, change: Change) -> Schedule:
        """Change a schedule; what is not mentioned stays. Only a change of its timetable moves its
        next time, and then to the first one later than now.
        """

        async def edited(stored: StoredSchedule, now: datetime) -> StoredSchedule:
            changes = spec_changes(change.options)
            spec = load_spec(merged(_spec_data(stored), changes, change.clear))
            template = template_of(
                change.task_type or stored.template.task_type,
                change.payload,
                change.options,
                change.definition,
                stored.template,
                change.clear,
            )
            check_replacing(spec.overlap, template)
            return _edited(stored, spec, template, now)

        return await self._change(name, edited)

    async def get(self, name: str) -> Schedule:
        """Return a schedule, or raise `ScheduleNotFound`."""
        return schedule_view(await self._stored(name))

    async def all(self) -> list[Schedule]:
        """Return all schedules in the order of their names."""
        found: list[Schedule] = []
        after = ""
        while part := await self._store.list_schedules(_PAGE, after):
            found += [schedule_view(stored) for stored in part]
            after = part[-1].name
        return found

    async def pause(self, name: str, note: str = "") -> Schedule:
        """Let a schedule make no more runs until it is resumed; runs that exist go on."""

        async def paused(stored: StoredSchedule, now: datetime) -> StoredSchedule:
            return with_state(stored, pause(state_of(stored), note), now)

        return await self._change(name, paused)

    async def resume(self, name: str, note: str = "", *, catch_up: bool = False) -> Schedule:
        """Let a schedule go on. The times of the pause are forgotten, unless `catch_up` hands them
        to its misfire policy.
        """

        async def resumed(stored: StoredSchedule, now: datetime) -> StoredSchedule:
            state = resume(state_of(stored), now, note=note, catch_up=catch_up)
            return with_state(stored, state, now)

        return await self._change(name, resumed)

    async def delete(self, name: str) -> None:
        """Forget a schedule and its history; runs that exist go on."""
        if not await self._store.delete_schedule(name):
            raise _no_schedule(name)

    async def trigger(self, name: str, overlap: str | None = None) -> Tick:
        """Run a schedule now, beside its timetable and also while it is paused.

        `overlap` takes the place of its overlap policy. Raises `RunSkipped` when an unfinished run
        does not allow it. Where a live task has the unique key of its runs, the tick is skipped as
        `unique` and `task_id` is that task.
        """
        policy = None if overlap is None else OverlapPolicy(rule=_rule(overlap))

        async def step() -> Tick | None:
            for number in range(_SAME_INSTANT):
                stored = await self._stored(name)
                if policy is not None:
                    check_replacing(policy, stored.template)
                moment = await self._store.store_time() + number * _INSTANT
                plan = planned_by_hand(stored, moment, self._ids, policy)
                if isinstance(plan, SkipReason):
                    raise _run_skipped(stored)
                (answer,) = await self._store.commit_plans([plan])
                if not answer.is_stored:
                    return None
                decided = (*answer.started, *answer.met)
                if decided:
                    ticks = await self._store.ticks(stored.id, 1, decided[0] + _INSTANT)
                    return ticks[0]
            return None

        return await self._persist(name, step)

    async def backfill(
        self, name: str, start: datetime, end: datetime, *, limit: int = 1000, dry_run: bool = False
    ) -> BackfillResult:
        """Run the nominal times from `start` (included) to `end` (not included) now.

        Times that ran before are left out, and times that were skipped run. The runs hold up
        neither each other nor the schedule. With `dry_run` nothing is done.
        """
        stored = await self._stored(name)
        span = (check_instant(start, "start"), check_instant(end, "end"))
        found = backfill(spec_of(stored.spec), *span, limit)
        started: list[datetime] = []
        chunks = range(0, 0 if dry_run else len(found.runs), _BACKFILL_CHUNK)
        for at in chunks:
            runs = found.runs[at : at + _BACKFILL_CHUNK]
            started += await self._persist(name, partial(self._backfill, name, runs))
        return BackfillResult(
            runs=found.runs, started=tuple(started), truncated=found.truncated, dry_run=dry_run
        )

    async def history(
        self, name: str, limit: int = 50, before: datetime | None = None
    ) -> list[Tick]:
        """Return what became of the nominal times of a schedule, newest first."""
        if not 1 <= limit <= HISTORY_MAX:
            raise InvalidValue(f"limit is {limit}; choose 1 to {HISTORY_MAX}", field="limit")
        stored = await self._stored(name)
        return await self._store.ticks(stored.id, limit, before)

    async def preview(self, name: str, after: datetime | None = None, count: int = 10) -> Preview:
        """Return the next times of a stored schedule, with warnings."""
        stored = await self._stored(name)
        moment = await self._store.store_time() if after is None else check_instant(after, "after")
        return preview(spec_of(stored.spec), moment, count)

    async def now(self) -> datetime:
        """Return the store's time."""
        return await self._store.store_time()

    async def _meet(
        self,
        known: StoredSchedule,
        spec: ScheduleSpec,
        template: TaskTemplate,
        on_conflict: OnConflict,
    ) -> Schedule | None:
        """Settle that a schedule of this name exists; None: it changed meanwhile."""
        if on_conflict is OnConflict.KEEP:
            return schedule_view(known)
        now = await self._store.store_time()
        edited = _edited(known, spec, template, now)
        if (edited.spec, edited.template) == (known.spec, known.template):
            return schedule_view(known)
        if on_conflict is OnConflict.ERROR:
            if _is_same(known, edited):
                return schedule_view(known)
            raise ScheduleExists(
                f"there is a different schedule {known.name!r}; choose another name, or let it be "
                "replaced or kept",
                field="name",
            )
        return await self.get(known.name) if await self._store.replace_schedule(edited) else None

    async def _backfill(
        self, name: str, runs: Sequence[BackfillRun]
    ) -> tuple[datetime, ...] | None:
        stored = await self._stored(name)
        (answer,) = await self._store.commit_plans([planned_backfill(stored, runs, self._ids)])
        return answer.started if answer.is_stored else None

    async def _stored(self, name: str) -> StoredSchedule:
        stored = await self._store.get_schedule(name)
        if stored is None:
            raise _no_schedule(name)
        return stored

    async def _change(
        self,
        name: str,
        change: Callable[[StoredSchedule, datetime], Awaitable[StoredSchedule]],
    ) -> Schedule:
        async def step() -> Schedule | None:
            stored = await self._stored(name)
            changed = await change(stored, await self._store.store_time())
            if changed == stored:
                return schedule_view(stored)
            return await self.get(name) if await self._store.replace_schedule(changed) else None

        return await self._persist(name, step)

    async def _persist(self, name: str, step: Callable[[], Awaitable[T | None]]) -> T:
        """Try a step until nobody is in its way."""
        for _ in range(_TRIES):
            result = await step()
            if result is not None:
                return result
            await self._clock.sleep(_PAUSE_SECONDS)
        raise StoreUnavailable(f"schedule {name!r} is changed all the time by others; try again")


def preview_of(options: Mapping[str, Any], after: datetime, count: int = 10) -> Preview:
    """Return the next times of a schedule that need not exist, with warnings."""
    spec = load_spec(merged({}, spec_changes(options)))
    return preview(spec, check_instant(after, "after"), count)


def on_conflict_of(word: object) -> OnConflict:
    """Return what a word says about a schedule of the same name."""
    for choice in OnConflict:
        if choice == word:
            return choice
    choices = ", ".join(OnConflict)
    raise InvalidValue(f"on_conflict is {shown(word)}; choose from {choices}", field="on_conflict")


def _edited(
    stored: StoredSchedule, spec: ScheduleSpec, template: TaskTemplate, now: datetime
) -> StoredSchedule:
    changed = with_state(stored, apply_edit(state_of(stored), spec, now), now)
    return msgspec.structs.replace(changed, template=template)


def _spec_data(stored: StoredSchedule) -> dict[str, Any]:
    return dump_spec(spec_of(stored.spec))


def _rule(word: str) -> OverlapRule:
    for rule in OverlapRule:
        if rule == word:
            return rule
    choices = ", ".join(OverlapRule)
    raise InvalidValue(f"overlap is {shown(word)}; choose from {choices}", field="overlap")


def _run_skipped(stored: StoredSchedule) -> RunSkipped:
    return RunSkipped(
        f"schedule {stored.name!r} has {stored.unfinished} unfinished runs and its overlap policy "
        "does not allow another one now; wait, or trigger it with overlap=allow",
        field="overlap",
    )


def _is_same(known: StoredSchedule, edited: StoredSchedule) -> bool:
    """Whether two schedules do the same, however their expressions are spelled."""
    if known.template != edited.template:
        return False
    first, second = spec_of(known.spec), spec_of(edited.spec)
    plain = [{**dump_spec(spec), "cron": None} for spec in (first, second)]
    return first.timing == second.timing and plain[0] == plain[1]


def _no_schedule(name: str) -> ScheduleNotFound:
    return ScheduleNotFound(
        f"there is no schedule {shown(name)}; see `mainspring schedules list`", field="name"
    )
