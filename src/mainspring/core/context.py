"""What a handler is told about the attempt it runs, and what it may ask for meanwhile."""

import logging
from collections.abc import Awaitable, Generator, MutableMapping
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from mainspring.core.json_encoding import encode
from mainspring.core.locking import TTL_SECONDS, Locker, NamedLock
from mainspring.domain.errors import InvalidValue, StaleLease
from mainspring.domain.task import Lease
from mainspring.ports.clock import Clock

_LOGGER = logging.getLogger("mainspring.task")


class AttemptLink(Protocol):
    """Connects a running attempt with the worker that holds its lease. Usable from any thread."""

    def is_stopping(self) -> bool:
        """Whether the attempt was asked to stop."""
        ...

    def report(self, progress: str) -> None:
        """Pass on a progress value (JSON text); the newest one is stored soon."""
        ...

    async def renew(self) -> bool:
        """Renew the lease now; False when it is lost."""
        ...

    def locker(self) -> Locker:
        """Return what the handler locks with; raises `InvalidConfiguration` if there is nothing."""
        ...

    async def complete(self, connection: Any, result: str | None) -> bool:
        """Complete the task inside the caller's transaction; False when the lease is lost."""
        ...


class Done:
    """The result of a call that has already happened, so that awaiting it is optional."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = Done()


class TaskContext:
    """The first parameter of a handler that wants one.

    Every method may be called from an `async def` handler; `progress`, `is_cancelled`, `time_left`
    and `complete_in_sync` also from a plain `def` handler in its thread.
    """

    __slots__ = ("_clock", "_deadline", "_ends_at", "_lease", "_link", "has_completed")

    def __init__(self, lease: Lease, link: AttemptLink, clock: Clock, ends_at: float) -> None:
        self._lease = lease
        self._link = link
        self._clock = clock
        self._ends_at = ends_at
        self._deadline: datetime | None = None
        self.has_completed = False
        """`complete_in` has been called and accepted."""

    @property
    def task_id(self) -> UUID:
        """Identity of the task; the same in every attempt."""
        return self._lease.id

    @property
    def task_type(self) -> str:
        """Name of the task type."""
        return self._lease.task_type

    @property
    def queue(self) -> str:
        """Queue the task was submitted to."""
        return self._lease.queue

    @property
    def priority(self) -> int:
        """Priority it was submitted with, 0 (most urgent) to 10."""
        return self._lease.priority

    @property
    def scheduled_at(self) -> datetime:
        """When this attempt was due, in UTC."""
        return self._lease.scheduled_at

    @property
    def schedule(self) -> str | None:
        """Name of the schedule that made the task; None for a task that was submitted."""
        return None if self._lease.tick is None else self._lease.tick.schedule

    @property
    def nominal_time(self) -> datetime | None:
        """The time of the schedule that this run stands for, in UTC, whenever it really runs."""
        return None if self._lease.tick is None else self._lease.tick.nominal_at

    @property
    def previous_nominal_time(self) -> datetime | None:
        """The time of the schedule before that: the run covers the data from it up to
        `nominal_time`. None before the first one.
        """
        return None if self._lease.tick is None else self._lease.tick.previous_nominal_at

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._lease.attempt

    @property
    def max_retries(self) -> int:
        """Further attempts after the first before the task goes to the dead letters."""
        return self._lease.max_retries

    @property
    def fencing_token(self) -> int:
        """Rises with every attempt. Store it beside what you write and refuse a lower one."""
        return self._lease.fencing_token

    @property
    def deadline(self) -> datetime:
        """When the time of this attempt is over, in UTC by this machine's clock."""
        if self._deadline is None:
            self._deadline = self._clock.now() + timedelta(seconds=self.time_left())
        return self._deadline

    def time_left(self) -> float:
        """Return the seconds until the deadline, at least 0."""
        return max(0.0, self._ends_at - self._clock.monotonic())

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler should stop: the task was cancelled, its time is over, its lease is
        lost or the worker is shutting down. Long loops in `def` handlers look at it now and then.
        """
        return self._link.is_stopping()

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger (`mainspring.task`) whose records name the task and the attempt."""
        extra = {
            "task_id": str(self._lease.id),
            "task_type": self._lease.task_type,
            "attempt": self._lease.attempt,
        }
        return TaskLogger(_LOGGER, extra)

    def progress(self, value: Any) -> Awaitable[None]:
        """Say how far the task is: any JSON value, shown with the task and soon replaced.

        It takes effect with the call, from any thread; ``await`` in front of it is optional.
        Raises `InvalidValue` for a value that cannot be stored.
        """
        self._link.report(encode(value, "progress"))
        return _DONE

    async def heartbeat(self) -> None:
        """Renew the lease now and make sure of it; raises `StaleLease` when it is lost.

        Not needed to keep the lease: the worker renews it whatever the handler does. Use it just
        before a step that must not happen twice.
        """
        if not await self._link.renew():
            raise self._lost()

    def lock(self, name: str, *, ttl: float = TTL_SECONDS, wait: float | None = None) -> NamedLock:
        """Return a lock by name for an `async with` block: nobody else is in such a block then.

        It is kept in Redis, lasts `ttl` seconds (30, at most 3,600) and is extended while the
        block runs. `wait` is how many seconds to wait for it (None: for as long as the attempt
        may run); then entering raises `LockHeld`. A block whose lock is lost is interrupted and
        raises `LockLost`. Its `number` rises with every grant; entering returns the lock::

            async with ctx.lock("account-7", ttl=30) as lock:
                await write(..., fence=lock.number)

        Raises `Unavailable` while Redis cannot be used, and `InvalidConfiguration` without it.
        """
        return self._link.locker().lock(name, ttl, wait)

    async def complete_in(self, connection: Any, result: Any = None) -> None:
        """Complete the task inside a transaction of your own, so that your writes and the
        completion happen together or not at all; commit before the handler returns.

        `connection` is one of asyncpg, psycopg 3, SQLAlchemy or Django. Raises `StaleLease` when
        the lease is lost: let it roll the transaction back. The handler's own return value is
        not used after that.
        """
        text = None if result is None else encode(result, "result")
        if not await self._link.complete(connection, text):
            raise self._lost()
        self.has_completed = True

    def complete_in_sync(self, connection: Any, result: Any = None) -> None:
        """`complete_in` for `def` handlers, on a connection that does not need an event loop."""
        steps = self.complete_in(connection, result)
        try:
            steps.send(None)
        except StopIteration:
            return
        steps.close()
        message = "connection is asynchronous; use 'await ctx.complete_in(...)' in an async handler"
        raise InvalidValue(message, field="connection")

    def _lost(self) -> StaleLease:
        return StaleLease(
            f"attempt {self.attempt} of task {self.task_id} no longer holds its lease; "
            "undo what it has not committed and stop"
        )


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the task to the fields that the caller gives, and puts its id into the text."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Complete one record."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
