"""Waiting for tasks to end, with one query for all the waiters of an event loop."""

import asyncio
from typing import Final
from uuid import UUID

from mainspring.domain.errors import MainspringError, StoreUnavailable, Unavailable, WaitTimedOut
from mainspring.domain.status import TERMINAL, TaskStatus
from mainspring.ports.clock import Clock
from mainspring.ports.store import TaskReader

PAUSE_SECONDS: Final = 0.01
PAUSE_SECONDS_MAX: Final = 0.5
_GROWTH: Final = 1.5
_SECONDS_PER_TASK: Final = 0.00005
"""Looking at many tasks costs more, so they are looked at less often."""


class Waiting:
    """Watches the statuses of tasks that someone waits for.

    Looks after 10 ms, then ever less often up to every 500 ms; a new waiter makes it look often
    again. An outage of the store is waited out, up to each waiter's own time-out.
    """

    def __init__(self, reader: TaskReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._waiters: dict[UUID, set[asyncio.Future[TaskStatus]]] = {}
        self._pause = PAUSE_SECONDS
        self._watcher: asyncio.Task[None] | None = None
        self._outage: Unavailable | None = None

    async def wait(self, task_id: UUID, timeout: float | None = None) -> TaskStatus:
        """Return the terminal status of a task once it has one.

        A task that does not exist (yet) is waited for. Raises `WaitTimedOut` after `timeout`
        seconds (None: never), or `StoreUnavailable` if the store could not be asked at the end.
        """
        answer: asyncio.Future[TaskStatus] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(task_id, set()).add(answer)
        self._pause = PAUSE_SECONDS
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch(), name="mainspring-wait")
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise self._late(task_id, timeout) from self._outage
        finally:
            self._forget(task_id, answer)

    async def close(self) -> None:
        """Stop watching; whoever still waits is told that the app was closed."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        for answers in self._waiters.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(StoreUnavailable("the app was closed during the wait"))

    def _forget(self, task_id: UUID, answer: asyncio.Future[TaskStatus]) -> None:
        answers = self._waiters.get(task_id, set())
        answers.discard(answer)
        if not answers:
            self._waiters.pop(task_id, None)

    async def _watch(self) -> None:
        while self._waiters:
            await self._clock.sleep(max(self._pause, _SECONDS_PER_TASK * len(self._waiters)))
            self._pause = min(self._pause * _GROWTH, PAUSE_SECONDS_MAX)
            try:
                found = await self._reader.statuses(tuple(self._waiters))
            except Unavailable as error:
                self._outage = error
                continue
            except MainspringError as error:
                self._give_up(error)
                continue
            self._outage = None
            for task_id, status in found.items():
                if status in TERMINAL:
                    self._tell(task_id, status)

    def _tell(self, task_id: UUID, status: TaskStatus) -> None:
        for answer in self._waiters.get(task_id, ()):
            if not answer.done():
                answer.set_result(status)

    def _give_up(self, error: MainspringError) -> None:
        """Tell everyone who waits of an error that does not pass by itself."""
        for answers in self._waiters.values():
            for answer in answers:
                if not answer.done():
                    # An exception object carries one traceback, so they do not share one.
                    answer.set_exception(type(error)(error.message, field=error.field))

    def _late(self, task_id: UUID, timeout: float | None) -> Unavailable:
        if self._outage is not None:
            return StoreUnavailable(
                f"the task store could not be asked about task {task_id}: {self._outage.message}"
            )
        return WaitTimedOut(
            f"task {task_id} did not end within {timeout:g} s; it is still in the store, so wait "
            "longer, or see what it does with `mainspring tasks get`"
        )
