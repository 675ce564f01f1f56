"""How entries are written in Redis."""

from datetime import datetime, timedelta
from typing import Final

from mainspring.domain.ids import EPOCH
from mainspring.ports.ready_queue import Entry

MICROSECOND: Final = timedelta(microseconds=1)


Row = tuple[bytes, bytes, int]
"""An entry: its range, its id and its time."""


def row_of(entry: Entry) -> Row:
    """Return an entry as it is written; none of the names in a range can hold a space."""
    name = f"{entry.priority} {entry.queue} {entry.task_type}"
    return name.encode(), str(entry.id).encode(), microseconds(entry.scheduled_at)


def microseconds(moment: datetime) -> int:
    """Return an instant as a score, which is exact until the year 2255."""
    return (moment - EPOCH) // MICROSECOND
