"""Testing your own tasks, without a database and without waiting.

    from mainspring.testing import TestApp

    async def test_a_failed_mail_is_sent_again():
        async with TestApp(app) as t:
            task = await send_email.submit(user_id=1, email="a@example.com")
            await t.run_until_idle()                # what is due runs here, in this test
            await t.advance(10)                     # ten seconds pass, and what they bring
            assert (await task.refresh()).status == "completed"

Tasks live in memory for the time of the block, and the app submits there. Handlers run inline, one
after another, in the order in which a worker would start them, through the very code that a worker
runs: parameters are validated, errors classified, results checked. What is left out is what makes
processes and clocks real: time-outs are not enforced, nothing is killed, no lease expires.
"""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from mainspring.app import Mainspring
from mainspring.app_tasks import TaskState
from mainspring.core.declarations import deploy
from mainspring.core.locking import Locker
from mainspring.core.registry import TaskDefinition
from mainspring.core.session import Session
from mainspring.domain.errors import InvalidValue
from mainspring.domain.priority import FairShare
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    CommittedElsewhere,
    Completed,
    Lease,
    LeaseRef,
    Settlement,
)
from mainspring.domain.values import shown
from mainspring.ports.store import Claim, ClaimRequest
from mainspring.scheduler.planner import Planner
from mainspring.wiring.memory import memory_locker, memory_planner, memory_sessions
from mainspring.wiring.sessions import Sessions
from mainspring.worker.execution import Execution, Prepared, directly

__all__ = ["MovedClock", "TestApp"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
RUNS_MAX: Final = 100_000
_LEASE_SECONDS: Final = 10 * 365 * 86400.0
_WORKER: Final = "testing"


class MovedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self._start = now
        self._passed = 0.0

    def now(self) -> datetime:
        """Return the time it was moved to, in UTC."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Return the seconds it was moved by."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Let others run; no time passes by it."""
        del seconds
        await asyncio.sleep(0)

    def move(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        if seconds < 0:
            message = f"seconds is {shown(seconds)}; time passes forwards, give 0 or more"
            raise InvalidValue(message, field="seconds")
        self._passed += seconds


class TestApp:
    """An app on a task store in memory, for the time of an `async with` block.

    `now` is the time at the start (default: 2026-01-01 in UTC); `seed` decides the random part of
    back-off delays.
    """

    __test__ = False  # pytest, which collects classes by this name

    def __init__(self, app: Mainspring, *, now: datetime = START, seed: int = 0) -> None:
        self.app = app
        self.clock = MovedClock(now)
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._share = FairShare()
        self._prepared: dict[str, Prepared] = {}
        self._sessions: Sessions | None = None
        self._session: Session | None = None
        self._planner: Planner | None = None
        self._next_due_seconds: float | None = None
        self._locker = memory_locker()
        self._labels = {label for definition in app.registry for label in definition.labels}

    async def __aenter__(self) -> Self:
        self._sessions = memory_sessions(self.clock)
        self._session = await self._sessions.current()
        self.app.sessions.substitute(self._sessions)
        self._planner = memory_planner(self._session, self.clock)
        await deploy(self._session.schedules, self.app.registry)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.app.sessions.substitute(None)
        if self._sessions is not None:
            await self._sessions.close()

    async def run_until_idle(self) -> int:
        """Run every task that is due now, and those they submit, and return how many ran.

        Raises `InvalidValue` after 100,000 runs: tasks that keep submitting tasks never end.
        """
        planner = self._plan()
        for count in range(RUNS_MAX):
            await planner.run_once()
            claim = await self._claim()
            if not claim.leases:
                self._next_due_seconds = _sooner(claim.next_due_seconds, planner.next_seconds)
                return count
            for lease in self._share.order([(lease.lane, lease) for lease in claim.leases]):
                await self._execute(lease)
        message = f"tasks were still due after {RUNS_MAX:,} runs; one of them submits without end"
        raise InvalidValue(message)

    async def advance(self, seconds: float) -> int:
        """Let time pass, run each task at its time, and return how many ran."""
        end = self.clock.monotonic() + seconds
        count = await self.run_until_idle()
        while True:
            due = self._next_due_seconds
            left = end - self.clock.monotonic()
            if due is None or due > left:
                self.clock.move(max(0.0, left))
                return count + await self.run_until_idle()
            self.clock.move(due)
            count += await self.run_until_idle()

    async def get(self, task_id: UUID | str) -> TaskState:
        """Return a task as it is now."""
        return await self.app.get(task_id)

    async def tasks(
        self, *, status: TaskStatus | str | None = None, task_type: str | None = None
    ) -> list[TaskState]:
        """Return the tasks that were submitted, oldest first."""
        found = [task async for task in self.app.tasks(status=status, task_type=task_type)]
        return found[::-1]

    async def dead_letters(self) -> list[TaskState]:
        """Return the tasks that failed for good, oldest first."""
        return await self.tasks(status=TaskStatus.FAILED)

    def _plan(self) -> Planner:
        self._open()
        assert self._planner is not None
        return self._planner

    def _open(self) -> Session:
        if self._session is None:
            raise InvalidValue("TestApp is not open; use it as 'async with TestApp(app) as t:'")
        return self._session

    async def _claim(self) -> Claim:
        """Claim as a worker that offers all that tasks need."""
        store = self._open().store
        while True:
            request = ClaimRequest(
                worker_id=_WORKER,
                limit=1,
                lease_seconds=_LEASE_SECONDS,
                task_types=self.app.registry.names(),
                labels=tuple(sorted(self._labels)),
                served=self._share.served,
            )
            claim = await store.claim(request)
            branches = [] if claim.leases else [b for q in await store.queues() for b in q.branches]
            needed = {label for branch in branches for label in branch.labels}
            if needed <= self._labels:
                return claim
            self._labels |= needed

    async def _execute(self, lease: Lease) -> None:
        reference = LeaseRef(lease.id, lease.fencing_token)
        link = _InlineLink(self._open(), reference, self._locker)
        execution = Execution(
            self._prepare(self.app.registry.get(lease.task_type)),
            lease,
            clock=self.clock,
            jitter=self._random.random(),
            link=link,
            ends_at=self.clock.monotonic() + lease.timeout_seconds,
        )
        if self._prepared[lease.task_type].is_async:
            ending = await execution.run(directly)
        else:
            ending = await asyncio.to_thread(execution.call)
        await link.flush()
        if not isinstance(ending, CommittedElsewhere):
            settlement = Settlement(lease.id, lease.fencing_token, ending)
            await self._open().store.settle([settlement])

    def _prepare(self, definition: TaskDefinition) -> Prepared:
        if definition.name not in self._prepared:
            self._prepared[definition.name] = Prepared(definition)
        return self._prepared[definition.name]


def _sooner(first: float | None, second: float | None) -> float | None:
    return min((one for one in (first, second) if one is not None), default=None)


class _InlineLink:
    """Connects a handler's context with the store in memory."""

    def __init__(self, session: Session, lease: LeaseRef, locker: Locker) -> None:
        self._store = session.store
        self._lease = lease
        self._locker = locker
        self._progress: str | None = None

    def is_stopping(self) -> bool:
        return False

    def report(self, progress: str) -> None:
        self._progress = progress

    async def renew(self) -> bool:
        (renewal,) = await self._store.heartbeat([self._lease], _LEASE_SECONDS)
        return renewal.held

    def locker(self) -> Locker:
        return self._locker

    async def complete(self, connection: Any, result: str | None) -> bool:
        """No transaction of the caller reaches the store in memory, so it completes at once."""
        del connection
        await self.flush()
        lease = self._lease
        settlement = Settlement(lease.id, lease.fencing_token, Completed(result))
        (held,) = await self._store.settle([settlement])
        return held

    async def flush(self) -> None:
        """Record the newest progress."""
        if self._progress is not None:
            await self._store.progress(self._lease, self._progress)
            self._progress = None
