"""Task ids: UUID version 7 that carry the partition of the task.

The first 48 bits are the milliseconds of the Unix time at which the id was made (RFC 9562 section
5.7), so ids sort by time. The last 16 bits, taken modulo the partition count, are the partition:
any process can route an id without a look-up. They are random unless a key of the task decides
them (`deciding_key`), which keeps all tasks of one key in one partition, and so what holds for them
together (that a key is used once, the limits of a group) within one shard.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, SafeUUID

PARTITIONS: Final = 64
"""How many partitions tasks are divided into (default)."""

_TAIL_BITS: Final = 16
_TAIL_MASK: Final = (1 << _TAIL_BITS) - 1
_RANDOM_BITS: Final = 74
_MILLISECONDS_SHIFT: Final = 80

_LOW_BITS: Final = 62
"""Of the random bits so many are in the lower half of an id."""

_RANDOM_LOW: Final = (1 << _LOW_BITS) - 1
_VERSION: Final = 7 << 12
"""In the upper half."""

_VARIANT: Final = 2 << _LOW_BITS
"""In the lower half."""


def make_id(milliseconds: int, random_bits: int, key: str | None = None) -> UUID:
    """Make a task id from a Unix time in milliseconds and 74 random bits."""
    if key is not None:
        random_bits = random_bits & ~_TAIL_MASK | key_tail(key)
    # In halves of 64 bits: whole numbers of 128 bits take twice as long to put together.
    high = milliseconds << 16 | _VERSION | random_bits >> _LOW_BITS
    return _uuid(high << 64 | _VARIANT | random_bits & _RANDOM_LOW)


def _uuid(number: int) -> UUID:
    """Return what `UUID(int=number)` does in a third of the time: that asks which of six ways to
    give a value was used, and how large it is.
    """
    made = _new(UUID)
    _set_number(made, number)
    _set_safety(made, _UNKNOWN)
    return made


_UNKNOWN: Final = SafeUUID.unknown
_new: Final = object.__new__
_set_number: Final = vars(UUID)["int"].__set__
_set_safety: Final = vars(UUID)["is_safe"].__set__


def random_bits_needed() -> int:
    """Return how many random bits `make_id` takes."""
    return _RANDOM_BITS


def deciding_key(group_key: str | None, unique_key: str | None, key: str | None) -> str | None:
    """Return which of the keys of a task decides its partition: that of its group before its unique
    key, and this before its idempotency key. None: it may be anywhere.
    """
    if group_key is not None:
        return group_key
    return key if unique_key is None else unique_key


def key_tail(key: str) -> int:
    """Return the last 16 bits of the id of every task whose partition this key decides."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big")


def partition_of(task_id: UUID, count: int = PARTITIONS) -> int:
    """Return the partition that a task belongs to."""
    return (task_id.int & _TAIL_MASK) % count


def beside(task_id: UUID, other: UUID) -> UUID:
    """Return an id like this one in the partition of the other."""
    return UUID(int=task_id.int & ~_TAIL_MASK | other.int & _TAIL_MASK)


def moved_into(task_id: UUID, partitions: Sequence[int]) -> UUID:
    """Return an id like this one in one of these partitions, each of them as likely."""
    tail = task_id.int & _TAIL_MASK
    moved = tail // PARTITIONS * PARTITIONS + partitions[tail % len(partitions)]
    return UUID(int=task_id.int & ~_TAIL_MASK | moved)


def milliseconds_of(task_id: UUID) -> int:
    """Return the Unix time in milliseconds at which an id was made."""
    return task_id.int >> _MILLISECONDS_SHIFT


def floor_id(moment: datetime) -> UUID:
    """Return the smallest id that could have been made at a moment: a bound for ranges by time."""
    milliseconds = max(0, (moment - EPOCH) // timedelta(milliseconds=1))
    return UUID(int=milliseconds << _MILLISECONDS_SHIFT)


EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
