"""Cursors: a place in a list of tasks, newest first, as text that callers hand back unread.

A cursor names the place before an id: the next page begins with the largest id below it.
"""

import base64
import binascii
import hashlib
from typing import Final
from uuid import UUID

from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import shown

_CHECK_BYTES: Final = 4
_CURSOR_LENGTH: Final = 28


def cursor_before(task_id: UUID) -> str:
    """Name the place before an id, with a check that a mistyped or invented one does not pass."""
    check = hashlib.sha256(b"cursor" + task_id.bytes).digest()[:_CHECK_BYTES]
    return base64.urlsafe_b64encode(b"\x01" + check + task_id.bytes).decode()


def read_cursor(cursor: str) -> UUID:
    """Return the id that a cursor stands for, or raise `InvalidValue`."""
    try:
        if len(cursor) == _CURSOR_LENGTH:
            data = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
            task_id = UUID(bytes=data[_CHECK_BYTES + 1 :])
            if cursor_before(task_id) == cursor:
                return task_id
    except (UnicodeEncodeError, binascii.Error, ValueError):
        pass
    raise InvalidValue(
        f"cursor is {shown(cursor)}, which no list has given out; start again without a cursor",
        field="cursor",
    )
