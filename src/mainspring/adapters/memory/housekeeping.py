"""What keeps the tables small. Months are kept as names, so that the duty can be watched."""

from datetime import UTC, datetime, timedelta
from itertools import islice

from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.tables import Tables
from mainspring.domain.ids import milliseconds_of
from mainspring.domain.status import LIVE

_DEFAULT = "task_history_default"


class MemoryHousekeeping:
    """`ports.housekeeping.Housekeeping` on the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def prepare_history(self, months_ahead: int) -> list[str]:
        """Make the history of this and the coming months."""
        first = self._tables.now()
        names = [_name(_month_after(first, ahead)) for ahead in range(months_ahead + 1)]
        made = [name for name in names if name not in self._tables.months]
        self._tables.months.update(made)
        return made

    async def drop_history(self, keep_days: float) -> list[str]:
        """Drop the months in which nothing finished lately, and old rows that are in no month."""
        limit = self._tables.now() - timedelta(days=keep_days)
        oldest_kept = _name(limit)
        kept = {self._place(row) for row in self._tables.history.values() if _late(row, limit)}
        dropped = sorted(
            name for name in self._tables.months if name < oldest_kept and name not in kept
        )
        gone = [
            row
            for row in self._tables.history.values()
            if self._place(row) in dropped
            or (self._place(row) == _DEFAULT and not _late(row, limit))
        ]
        for row in gone:
            self._tables.delete(row)
        self._tables.months.difference_update(dropped)
        return dropped

    async def forget_keys(self, keep_days: float, limit: int) -> int:
        """Forget old idempotency keys whose task is not live."""
        horizon = self._tables.now() - timedelta(days=keep_days)
        old = (
            key
            for key, used in self._tables.keys.items()
            if used.used_at < horizon and not self._is_live(key)
        )
        keys = list(islice(old, limit))
        for key in keys:
            del self._tables.keys[key]
        return len(keys)

    def _is_live(self, key: str) -> bool:
        row = self._tables.find(self._tables.keys[key].id)
        return row is not None and row.status in LIVE

    def _place(self, row: Row) -> str:
        name = _name(datetime.fromtimestamp(milliseconds_of(row.id) / 1000, UTC))
        return name if name in self._tables.months else _DEFAULT


def _late(row: Row, limit: datetime) -> bool:
    return row.completed_at is not None and row.completed_at >= limit


def _name(moment: datetime) -> str:
    return f"task_history_{moment:%Y_%m}"


def _month_after(moment: datetime, count: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + count
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
