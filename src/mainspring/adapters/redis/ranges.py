"""How entries are written in Redis."""

from datetime import datetime, timedelta
from typing import Final

from mainspring.domain.ids import EPOCH
from mainspring.ports.ready_queue import Entry

MICROSECOND: Final = timedelta(microseconds=1)


def range_of(entry: Entry) -> str:
    """Return the range that an entry is in; none of these names can hold a space."""
    return f"{entry.priority} {entry.queue} {entry.task_type}"


def microseconds(moment: datetime) -> int:
    """Return an instant as a score, which is exact until the year 2255."""
    return (moment - EPOCH) // MICROSECOND
