"""Branches of queues as people see them: what needs labels of its worker, and who could take it."""

from typing import Final

import msgspec

HEAD_TASKS: Final = 1000
"""The oldest due tasks of a priority that are looked at for what nobody can take."""


class BranchState(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a queue that need the same labels of their worker."""

    labels: tuple[str, ...]
    ready: int
    scheduled: int
    running: int
    oldest_ready_seconds: float | None
    workers: int
    """Live workers that offer all of the labels and serve the queue."""

    unplaceable: int
    """Due tasks that none of those has a handler for, up to `HEAD_TASKS` of each priority."""


class Unplaceable(msgspec.Struct, frozen=True, kw_only=True):
    """Due tasks of a queue that no live worker can take: none has all the labels they need and a
    handler for them.
    """

    queue: str
    labels: tuple[str, ...]
    count: int
    """Up to `HEAD_TASKS` of each priority."""

    oldest_seconds: float
