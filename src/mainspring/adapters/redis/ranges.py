"""How entries are written in Redis, and what there is none of ours."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from mainspring.domain.ids import EPOCH
from mainspring.ports.ready_queue import Entry

MICROSECOND: Final = timedelta(microseconds=1)

_RANGE: Final = re.compile(rb"[0-9]+ [!-~]+ [!-~]+")
_ID_BYTES: Final = 36
_ID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Row = tuple[bytes, bytes, int]
"""An entry: its range, its id and its time."""


def row_of(entry: Entry) -> Row:
    """Return an entry as it is written; none of the names in a range can hold a space."""
    name = f"{entry.priority} {entry.queue} {entry.task_type}"
    return name.encode(), str(entry.id).encode(), microseconds(entry.scheduled_at)


def rows_in(name: bytes, flat: Sequence[bytes]) -> dict[bytes, int] | None:
    """Return the ids of a range by their times, as the server says them in turn; None: it holds
    something that nobody of us wrote.
    """
    ids, times = flat[::2], flat[1::2]
    # All at once, because there are tens of thousands of them twice a second.
    are_ids = {*map(len, ids)} <= {_ID_BYTES} and b" " not in b"".join(ids)
    are_times = (b"0" + b"".join(times)).isdigit()
    if _RANGE.fullmatch(name) and are_ids and are_times:
        return dict(zip(ids, map(int, times), strict=True))
    return None


def is_id(text: bytes) -> bool:
    """Whether a text is the id of a task as we write it."""
    return _ID.fullmatch(text) is not None


def microseconds(moment: datetime) -> int:
    """Return an instant as a score, which is exact until the year 2255."""
    return (moment - EPOCH) // MICROSECOND
