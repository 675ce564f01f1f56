"""Deterministic jitter: the same schedule and nominal time always get the same delay."""

import hashlib
from datetime import datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)


def jitter_offset(
    schedule_id: str, nominal: datetime, jitter: timedelta, until_next: timedelta | None
) -> timedelta:
    """The delay of one run in whole milliseconds: at least zero and less than ``jitter``.

    ``until_next``, the time to the next nominal time, caps the jitter so that the order of runs
    is kept. A hash of id and time decides, so the delay survives a failover.
    """
    span = jitter if until_next is None else min(jitter, until_next)
    choices = span // _MILLISECOND
    if choices <= 0:
        return timedelta()
    name = f"{schedule_id}|{nominal.isoformat()}".encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    return number % choices * _MILLISECOND
