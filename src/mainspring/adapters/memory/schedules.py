"""Schedules as people make, change and look at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from mainspring.adapters.memory.tables import Tables
from mainspring.domain.schedule.state import ScheduleStatus
from mainspring.domain.status import LIVE
from mainspring.ports.schedules import NewTick, StoredSchedule, Tick, TickKind, TickOutcome
from mainspring.ports.store import Hint


@dataclass(slots=True)
class TickRow:
    """One tick as the memory store holds it."""

    tick: NewTick
    decided_at: datetime
    task_id: UUID | None = None
    task_status: str | None = None
    ended_at: datetime | None = None
    start_by: datetime | None = None

    @property
    def is_open(self) -> bool:
        """It became a task that is not known to have ended."""
        return self.tick.outcome is TickOutcome.TASK and self.ended_at is None


class ScheduleTables:
    """The schedules, their ticks and what is counted about them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.schedules: dict[UUID, StoredSchedule] = {}
        self.names: dict[str, UUID] = {}
        self.last_round: datetime | None = None
        self.ticks: dict[UUID, dict[datetime, TickRow]] = {}
        self.counts: dict[UUID, dict[str, int]] = {}

    def read(self, schedule_id: UUID) -> StoredSchedule:
        """Return a schedule with what is counted about it."""
        return msgspec.structs.replace(
            self.schedules[schedule_id],
            unfinished=self.live_runs(schedule_id),
            counts=dict(self.counts.get(schedule_id, {})),
        )

    def live_runs(self, schedule_id: UUID) -> int:
        """Return how many runs of a schedule are live."""
        return sum(
            row.is_open
            and row.task_id in self.tables.live
            and row.tick.kind is not TickKind.BACKFILL
            for row in self.ticks.get(schedule_id, {}).values()
        )

    def save(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if it still has the revision that it says."""
        known = self.schedules.get(schedule.id)
        if known is None or known.revision != schedule.revision:
            return False
        self.schedules[schedule.id] = msgspec.structs.replace(
            schedule,
            revision=schedule.revision + 1,
            problem="",
            problem_count=0,
            updated_at=self.tables.now(),
        )
        return True

    def count(self, schedule_id: UUID, what: str, number: int) -> None:
        """Count something out of the ordinary."""
        counts = self.counts.setdefault(schedule_id, {})
        counts[what] = counts.get(what, 0) + number


class MemoryScheduling:
    """The part of `ports.schedules.ScheduleStore` that people use."""

    def __init__(self, tables: Tables) -> None:
        self._schedule_tables = ScheduleTables(tables)

    async def store_time(self) -> datetime:
        """Return the store's time."""
        return self._schedule_tables.tables.now()

    async def create_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a new schedule; False when the name is taken."""
        tables = self._schedule_tables
        if schedule.name in tables.names:
            return False
        now = tables.tables.now()
        tables.names[schedule.name] = schedule.id
        tables.schedules[schedule.id] = msgspec.structs.replace(
            schedule, revision=1, created_at=schedule.created_at or now, updated_at=now
        )
        tables.tables.board.post(Hint.SCHEDULE)
        return True

    async def replace_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if nobody changed it since."""
        tables = self._schedule_tables
        if tables.names.get(schedule.name) != schedule.id:
            return False
        tables.tables.board.post(Hint.SCHEDULE)
        return tables.save(schedule)

    async def get_schedule(self, name: str) -> StoredSchedule | None:
        """Return a schedule by its name."""
        tables = self._schedule_tables
        return tables.read(tables.names[name]) if name in tables.names else None

    async def list_schedules(self, limit: int, after: str = "") -> list[StoredSchedule]:
        """Return schedules in the order of their names."""
        tables = self._schedule_tables
        names = sorted(name for name in tables.names if name > after)
        return [tables.read(tables.names[name]) for name in names[:limit]]

    async def load_schedules(self, ids: Sequence[UUID]) -> list[StoredSchedule]:
        """Return those of the schedules that exist."""
        tables = self._schedule_tables
        return [tables.read(one) for one in ids if one in tables.schedules]

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule; its ticks are removed later."""
        tables = self._schedule_tables
        schedule_id = tables.names.pop(name, None)
        if schedule_id is None:
            return False
        del tables.schedules[schedule_id]
        return True

    async def ticks(
        self, schedule_id: UUID, limit: int, before: datetime | None = None
    ) -> list[Tick]:
        """Return the ticks of a schedule, newest first."""
        rows = self._schedule_tables.ticks.get(schedule_id, {})
        moments = sorted((one for one in rows if before is None or one < before), reverse=True)
        return [self._tick(rows[moment]) for moment in moments[:limit]]

    async def zone_prints(self) -> list[tuple[str, str]]:
        """Return every pair of zone and zone print in use."""
        return sorted({(one.timezone, one.zone_print) for one in self._active()})

    async def schedules_of_zone(
        self, timezone: str, zone_print: str, limit: int
    ) -> list[StoredSchedule]:
        """Return active schedules computed under a zone print."""
        found = [
            one
            for one in self._active()
            if (one.timezone, one.zone_print) == (timezone, zone_print)
        ]
        return [self._schedule_tables.read(one.id) for one in found[:limit]]

    async def note_round(self) -> None:
        """Note that a planner is done by now."""
        self._schedule_tables.last_round = self._schedule_tables.tables.now()

    async def last_round(self) -> datetime | None:
        """Return the last time that was noted."""
        return self._schedule_tables.last_round

    async def forget_ticks(self, keep_days: float, limit: int) -> int:
        """Remove old ticks, and those of deleted schedules."""
        tables = self._schedule_tables
        horizon = tables.tables.now() - timedelta(days=keep_days)
        old = [
            (schedule_id, moment)
            for schedule_id, rows in tables.ticks.items()
            for moment, row in rows.items()
            if not row.is_open
            and (schedule_id not in tables.schedules or moment < horizon)
            and (
                row.tick.outcome is not TickOutcome.BUFFERED or schedule_id not in tables.schedules
            )
        ][:limit]
        for schedule_id, moment in old:
            del tables.ticks[schedule_id][moment]
        return len(old)

    def _active(self) -> list[StoredSchedule]:
        schedules = self._schedule_tables.schedules.values()
        return [one for one in schedules if one.status is ScheduleStatus.ACTIVE]

    def _tick(self, row: TickRow) -> Tick:
        tick = row.tick
        task = None if row.task_id is None else self._schedule_tables.tables.find(row.task_id)
        status = row.task_status or (None if task is None else task.status.value)
        return Tick(
            nominal_at=tick.nominal_at,
            outcome=tick.outcome,
            kind=tick.kind,
            reason=tick.reason,
            until_at=tick.until_at,
            count=tick.count,
            is_exact=tick.is_exact,
            lateness_seconds=tick.lateness_seconds,
            decided_at=row.decided_at,
            task_id=row.task_id,
            task_status=status,
        )


def is_live(tables: Tables, row: TickRow) -> bool:
    """Whether the task of a tick is live."""
    task = None if row.task_id is None else tables.find(row.task_id)
    return task is not None and task.status in LIVE
