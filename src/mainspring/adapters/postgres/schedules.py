"""Schedules as people make, change and look at them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.schedule_rows import schedule_of, schedule_row, tick_of
from mainspring.ports.schedules import StoredSchedule, Tick

_TIME: Final = QUERIES["store_time"]
_CREATE: Final = QUERIES["create_schedule"]
_REPLACE: Final = QUERIES["replace_schedule"]
_GET: Final = QUERIES["get_schedule"]
_LIST: Final = QUERIES["list_schedules"]
_LOAD: Final = QUERIES["load_schedules"]
_DELETE: Final = QUERIES["delete_schedule"]
_TICKS: Final = QUERIES["ticks"]
_ZONES: Final = QUERIES["zone_prints"]
_OF_ZONE: Final = QUERIES["schedules_of_zone"]
_NOTE_ROUND: Final = QUERIES["note_round"]
_LAST_ROUND: Final = QUERIES["last_round"]
_FORGET_TICKS: Final = QUERIES["forget_ticks"]
_FORGET_SCHEDULES: Final = QUERIES["forget_schedules"]
_DAY_SECONDS: Final = 86400.0


class Scheduling(StorePart):
    """The part of `ports.schedules.ScheduleStore` that people use."""

    async def store_time(self) -> datetime:
        """Return the store's time."""
        rows = await self._main.fetch(_TIME, self._now())
        now: datetime = rows[0]["now"]
        return now

    async def create_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a new schedule; False when the name is taken."""
        row = schedule_row(schedule)
        rows = await self._main.fetch(_CREATE, self._now(), *row, schedule.created_at)
        self._announcer.schedule()
        return bool(rows)

    async def replace_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if nobody changed it since."""
        row = schedule_row(schedule)
        rows = await self._main.fetch(_REPLACE, self._now(), *row, schedule.revision)
        self._announcer.schedule()
        return bool(rows)

    async def get_schedule(self, name: str) -> StoredSchedule | None:
        """Return a schedule by its name."""
        rows = await self._main.fetch(_GET, name)
        return schedule_of(rows[0]) if rows else None

    async def list_schedules(self, limit: int, after: str = "") -> list[StoredSchedule]:
        """Return schedules in the order of their names."""
        return [schedule_of(row) for row in await self._main.fetch(_LIST, after, limit)]

    async def load_schedules(self, ids: Sequence[UUID]) -> list[StoredSchedule]:
        """Return those of the schedules that exist."""
        return [schedule_of(row) for row in await self._main.fetch(_LOAD, list(ids))]

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule; its ticks are removed later."""
        return bool(await self._main.fetch(_DELETE, self._now(), name))

    async def ticks(
        self, schedule_id: UUID, limit: int, before: datetime | None = None
    ) -> list[Tick]:
        """Return the ticks of a schedule, newest first."""
        return [tick_of(row) for row in await self._main.fetch(_TICKS, schedule_id, limit, before)]

    async def zone_prints(self) -> list[tuple[str, str]]:
        """Return every pair of zone and zone print in use."""
        rows = await self._main.fetch(_ZONES)
        return [(row["timezone"], row["zone_print"]) for row in rows]

    async def schedules_of_zone(
        self, timezone: str, zone_print: str, limit: int
    ) -> list[StoredSchedule]:
        """Return active schedules computed under a zone print."""
        rows = await self._main.fetch(_OF_ZONE, timezone, zone_print, limit)
        return [schedule_of(row) for row in rows]

    async def note_round(self) -> None:
        """Note that a planner is done by now."""
        await self._main.fetch(_NOTE_ROUND, self._now())

    async def last_round(self) -> datetime | None:
        """Return the last time that was noted."""
        rows = await self._main.fetch(_LAST_ROUND)
        return rows[0]["planned_at"] if rows else None

    async def forget_ticks(self, keep_days: float, limit: int) -> int:
        """Remove old ticks, and deleted schedules that have none left."""
        keep_seconds = keep_days * _DAY_SECONDS
        rows = await self._main.fetch(_FORGET_TICKS, self._now(), keep_seconds, limit)
        if len(rows) < limit:
            await self._main.fetch(_FORGET_SCHEDULES)
        return len(rows)
