"""Leases and links for tests of single parts."""

import itertools
from typing import Any
from uuid import UUID

import msgspec

from mainspring.core.locking import Locker, no_locker
from mainspring.domain.priority import Level
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.task import Lease
from manual_clock import START

_ids = itertools.count(1)


def make_lease(payload: Any = None, **changes: Any) -> Lease:
    lease = Lease(
        id=UUID(int=next(_ids)),
        fencing_token=1,
        task_type="work",
        payload=msgspec.json.encode({} if payload is None else payload).decode(),
        queue="default",
        priority=5,
        lane=Level.NORMAL,
        scheduled_at=START,
        created_at=START,
        started_at=START,
        attempt=1,
        max_retries=3,
        timeout_seconds=30.0,
        backoff=Backoff(BackoffKind.FIXED, 8.0),
        crash_count=0,
    )
    return msgspec.structs.replace(lease, **changes)


class Link:
    """Stands for the worker behind a context."""

    def __init__(self, *, held: bool = True) -> None:
        self.held = held
        self.progress: list[str] = []
        self.completed: list[str | None] = []
        self.stopping = False

    def is_stopping(self) -> bool:
        return self.stopping

    def report(self, progress: str) -> None:
        self.progress.append(progress)

    async def renew(self) -> bool:
        return self.held

    def locker(self) -> Locker:
        return no_locker()

    async def complete(self, connection: Any, result: str | None) -> bool:  # noqa: ARG002
        self.completed.append(result)
        return self.held
