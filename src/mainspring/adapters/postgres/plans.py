"""Schedules as the planner works on them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from mainspring.adapters.postgres.failures import LOCK_TIMEOUT, UNIQUE_VIOLATION, sqlstates
from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.partitions import fence_columns
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.schedule_rows import (
    ended_columns,
    key_columns,
    plan_columns,
    schedule_of,
)
from mainspring.domain.errors import InvalidValue, StoreUnavailable
from mainspring.domain.status import TaskStatus
from mainspring.ports.coordination import Fence
from mainspring.ports.hooks import HookPoint, NoHooks
from mainspring.ports.schedules import (
    Committed,
    DueSchedules,
    EndedRun,
    ExpiredRun,
    SchedulePlan,
    StoredSchedule,
    Sweep,
)

_DUE: Final = QUERIES["due_schedules"]
_NEXT: Final = QUERIES["next_plan"]
_COMMIT: Final = QUERIES["commit_plans"]
_PROBLEM: Final = QUERIES["report_problem"]
_ENDED: Final = QUERIES["ended_runs"]
_CLOSE: Final = QUERIES["close_runs"]
_EXPIRE: Final = QUERIES["expire_starts"]
_FIRST: Final = (UUID(int=0), datetime.fromisoformat("1970-01-01T00:00:00+00:00"))

_PATIENCE: Final = "100ms"
"""The longest wait for a unique key, or a task to cancel, that someone's transaction holds."""

_TRIES: Final = 5
"""Looks for who has a unique key that was just taken; after that the next round is soon enough."""

CANCELLED_BY_NEXT: Final = "a later run of its schedule took its place"
NOT_STARTED: Final = "it had not started by its start deadline"


class Planning(StorePart):
    """The part of `ports.schedules.ScheduleStore` that the planner uses."""

    async def due_schedules(self, limit: int, fence: Fence | None = None) -> DueSchedules:
        """Return the schedules to plan now."""
        partitions, _ = fence_columns(fence)
        rows = await self._main.fetch(_DUE, self._now(), limit, partitions)
        found = [schedule_of(row) for row in rows]
        if len(found) >= limit:
            return DueSchedules(found, rows[0]["now"])
        (rest,) = await self._main.fetch(_NEXT, self._now(), partitions)
        now = rows[0]["now"] if rows else rest["now"]
        return DueSchedules(found, now, rest["next_seconds"])

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        """Carry out plans, each as a whole or not at all."""
        if not plans:
            return []
        await self._hooks.reach(HookPoint.TICK_BEFORE_INSERT)
        calm = [plan for plan in plans if not _may_wait(plan)]
        others = [plan for plan in plans if _may_wait(plan)]
        rows = await self._commit(calm, fence) + await self._commit_soon(others, fence)
        await self._hooks.reach(HookPoint.TICK_AFTER_COMMIT)
        if any(row["nominal_at"] is not None for row in rows):
            self._announcer.ready()
        if any(row["told"] for row in rows):
            self._announcer.cancel()
        return _answers(plans, rows)

    async def _commit(
        self, plans: Sequence[SchedulePlan], fence: Fence | None, patience: str | None = None
    ) -> list[Any]:
        if not plans:
            return []
        return await self._main.fetch(
            _COMMIT,
            self._now(),
            *plan_columns(plans),
            CANCELLED_BY_NEXT,
            *fence_columns(fence),
            *key_columns(plans),
            patience,
            # What stands still between a statement and its commit keeps locks, so there is nothing
            # between them unless a test wants it.
            before_commit=None if isinstance(self._hooks, NoHooks) else self._inserted,
        )

    async def _commit_soon(self, plans: Sequence[SchedulePlan], fence: Fence | None) -> list[Any]:
        """Carry out plans for which someone's open transaction may be in the way: it holds up no
        other schedule, nor the partition. What would have to wait is left for the next round.
        """
        for _ in range(_TRIES):
            try:
                return await self._commit(plans, fence, _PATIENCE)
            except InvalidValue as error:
                if UNIQUE_VIOLATION not in sqlstates(error):
                    raise
            except StoreUnavailable as error:
                if LOCK_TIMEOUT not in sqlstates(error):
                    raise
                half = len(plans) // 2
                if half == 0:
                    break
                first = await self._commit_soon(plans[:half], fence)
                return first + await self._commit_soon(plans[half:], fence)
        return []

    async def report_problem(
        self, schedule: StoredSchedule, problem: str, seconds: float, fence: Fence | None = None
    ) -> None:
        """Note why a schedule could not be planned."""
        place = (schedule.id, schedule.revision)
        await self._main.fetch(
            _PROBLEM, self._now(), *place, problem, seconds, *fence_columns(fence)
        )

    async def ended_runs(
        self, limit: int, after: tuple[UUID, datetime] | None = None, fence: Fence | None = None
    ) -> Sweep:
        """Return those of a part of the open runs that have ended."""
        partitions, _ = fence_columns(fence)
        rows = await self._main.fetch(_ENDED, *(after or _FIRST), limit, partitions)
        if not rows:
            return Sweep([])
        last = rows.pop()
        cursor = (last["schedule_id"], last["nominal_at"]) if last["looked_at"] >= limit else None
        return Sweep([_ended(row) for row in rows], cursor)

    async def close_runs(self, runs: Sequence[EndedRun], fence: Fence | None = None) -> None:
        """Note that runs have ended."""
        columns = ended_columns(runs)
        await self._main.fetch(_CLOSE, self._now(), *columns, *fence_columns(fence))

    async def expire_starts(self, limit: int, fence: Fence | None = None) -> list[ExpiredRun]:
        """Drop runs that have not started by their deadline."""
        expired: list[ExpiredRun] = []
        while True:
            rows = await self._main.fetch(
                _EXPIRE, self._now(), limit, NOT_STARTED, *fence_columns(fence)
            )
            expired += [
                ExpiredRun(row["schedule"], row["nominal_at"])
                for row in rows
                if row["schedule"] is not None
            ]
            if len(rows) < limit:
                return expired

    async def _inserted(self) -> None:
        await self._hooks.reach(HookPoint.TICK_AFTER_INSERT)


def _ended(row: Any) -> EndedRun:
    return EndedRun(
        schedule_id=row["schedule_id"],
        nominal_at=row["nominal_at"],
        status=None if row["status"] is None else TaskStatus(row["status"]),
        ended_at=row["completed_at"],
        matters=bool(row["matters"]),
    )


def _may_wait(plan: SchedulePlan) -> bool:
    """Whether it takes a unique key or ends tasks, which the transactions of callers do as well."""
    keys = (tick.task.unique_key for tick in plan.ticks if tick.task is not None)
    return plan.cancels_previous or any(key is not None for key in keys)


def _answers(plans: Sequence[SchedulePlan], rows: Sequence[Any]) -> list[Committed]:
    started: dict[UUID, list[datetime]] = {}
    met: dict[UUID, list[datetime]] = {}
    stale = {row["id"] for row in rows if row["stale"]}
    for row in rows:
        if row["stale"]:
            continue
        moments = started.setdefault(row["id"], [])
        if row["met"]:
            met.setdefault(row["id"], []).append(row["nominal_at"])
        elif row["nominal_at"] is not None:
            moments.append(row["nominal_at"])
    return [
        Committed(
            plan.schedule.id in started,
            tuple(sorted(started.get(plan.schedule.id, ()))),
            is_stale=plan.schedule.id in stale,
            met=tuple(sorted(met.get(plan.schedule.id, ()))),
        )
        for plan in plans
    ]
