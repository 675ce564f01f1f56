"""The verbs of an app for callers that block, such as Django views, Flask views and scripts.

The work happens on an event loop in a thread of its own, started at first use, so that any number
of threads may call. A forked child starts its own.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack
from uuid import UUID

from mainspring.app_limits import AppLimits, SyncLimits
from mainspring.app_schedules import AppSchedules, SyncSchedules
from mainspring.core.options import OptionKeywords
from mainspring.domain.errors import InvalidValue, MainspringError
from mainspring.domain.task import CancelState, NewTask, Submission

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, that blocking callers can run coroutines on."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            forget = weakref.WeakMethod(self._forget)
            os.register_at_fork(after_in_child=lambda: (call := forget()) and call())

    def _forget(self) -> None:
        # In a forked child there is no such thread, and who held the lock may not exist either.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result in the calling thread."""
        if _is_in_loop():
            work.close()
            raise MainspringError(
                "app.sync was called inside a coroutine, where it would block the event loop; "
                "await the same method of the app itself"
            )
        answer = self._start(work)
        try:
            return answer.result()
        except CancelledError:
            raise MainspringError("the app was closed during the call") from None
        finally:
            # Ctrl-C in the calling thread must not leave the work behind.
            answer.cancel()

    def stop(self) -> None:
        """End the thread; the next call starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)

    def is_running(self) -> bool:
        """Whether this process has the thread now."""
        return self._loop is not None

    def _start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_serve, args=(self._loop,), name="mainspring-sync", daemon=True
                ).start()
            # Under the lock, so that `stop` comes before or after: what was handed over to the
            # loop by then is begun, and answered.
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # Whoever still waits for one of these in another thread would wait for ever.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_in_place(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait, in this very thread.

    What happens on a caller's blocking connection has to happen in the caller's thread. Raises
    `InvalidValue` if the coroutine does wait, because the connection needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    message = "connection is asynchronous; await app.submit(...) instead of app.sync.submit(...)"
    raise InvalidValue(message, field="connection")


class Verbs(Protocol):
    """What the facade needs of an app."""

    schedules: AppSchedules
    limits: AppLimits

    def new_task(
        self, task: Any, payload: Any = None, /, **options: Unpack[OptionKeywords]
    ) -> NewTask:
        """Build a task without storing it."""
        ...

    async def store(
        self, tasks: Sequence[NewTask], connection: Any = None, *, first: bool = False
    ) -> list[Submission]:
        """Store built tasks."""
        ...

    async def get(self, task_id: Any, *, max_staleness: float = 0.0) -> Any:
        """Return a task."""
        ...

    async def wait(self, task_id: Any, timeout: float | None = None) -> Any:
        """Return a task once it has ended."""
        ...

    async def cancel(self, task_id: Any, reason: str | None = None) -> CancelState:
        """Cancel a task."""
        ...

    async def reschedule(self, task_id: Any, at: datetime | None) -> None:
        """Move a waiting task in time."""
        ...

    async def close(self) -> None:
        """Close the session of the running loop."""
        ...


class SyncTaskHandle:
    """A submitted task, for callers that block."""

    def __init__(self, app: "SyncFacade", submission: Submission) -> None:
        self._app = app
        self.id: UUID = submission.id
        """Identity of the task."""

        self.is_new: bool = submission.is_new
        """False when the idempotency key had been used before: this is the task of that time."""

    def __repr__(self) -> str:
        return f"<SyncTaskHandle {self.id}>"

    def wait(self, timeout: float | None = None) -> Any:
        """Block until the task has ended and return it; see `TaskHandle.wait`."""
        return self._app.wait(self.id, timeout)

    def refresh(self) -> Any:
        """Return the task as it is now."""
        return self._app.get(self.id)

    def cancel(self, reason: str | None = None) -> CancelState:
        """Cancel the task; see `TaskHandle.cancel`."""
        return self._app.cancel(self.id, reason)


class SyncFacade:
    """`app.sync`: the app's verbs, blocking. Safe to use from several threads and after a fork."""

    def __init__(self, app: Verbs) -> None:
        self._app = app
        self._thread = LoopThread()
        self.schedules = SyncSchedules(app.schedules, self._thread.run)
        """Schedules: `app.sync.schedules.create(...)` and so on."""

        self.limits = SyncLimits(app.limits, self._thread.run)
        """Limits of queues: `app.sync.limits.set_queue(...)` and so on."""

    def submit(
        self,
        task: Any,
        payload: Any = None,
        /,
        *,
        connection: Any = None,
        **options: Unpack[OptionKeywords],
    ) -> SyncTaskHandle:
        """Submit a task: `(task_type_or_name, payload, **options)` or a task made by `build`.

        With `connection` (psycopg, SQLAlchemy or Django, blocking) it is stored inside the
        caller's transaction, in the calling thread.
        """
        built = self._app.new_task(task, payload, **options)
        return self._store([built], connection, first=built is not task)[0]

    def submit_many(
        self, tasks: Sequence[NewTask], *, connection: Any = None
    ) -> list[SyncTaskHandle]:
        """Submit up to 10,000 tasks made by `build`; see `Mainspring.submit_many`."""
        return self._store(tasks, connection)

    def _store(
        self, tasks: Sequence[NewTask], connection: Any, *, first: bool = False
    ) -> list[SyncTaskHandle]:
        work = self._app.store(tasks, connection, first=first)
        stored = self._thread.run(work) if connection is None else run_in_place(work)
        return [SyncTaskHandle(self, submission) for submission in stored]

    def get(self, task_id: UUID | str, *, max_staleness: float = 0.0) -> Any:
        """Return a task as it is now."""
        return self._thread.run(self._app.get(task_id, max_staleness=max_staleness))

    def wait(self, task_id: UUID | str, timeout: float | None = None) -> Any:
        """Block until a task has ended and return it."""
        return self._thread.run(self._app.wait(task_id, timeout))

    def cancel(self, task_id: UUID | str, reason: str | None = None) -> CancelState:
        """Cancel a task."""
        return self._thread.run(self._app.cancel(task_id, reason))

    def reschedule(self, task_id: UUID | str, at: datetime | None) -> None:
        """Move a waiting task to another time, or to now (None)."""
        self._thread.run(self._app.reschedule(task_id, at))

    def close(self) -> None:
        """Close connections and end the thread. The facade may be used again."""
        if self._thread.is_running():
            self._thread.run(self._app.close())
            self._thread.stop()
