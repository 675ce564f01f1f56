"""Group commit by natural batching.

A submission is sent at once when nothing is on its way; what arrives meanwhile goes together when
that is done, or earlier when a full batch has gathered, beside it. So the store commits once for
many submissions exactly when there are many, and no timer delays any.

A caller who has been the only one sends for itself: a flight of its own would cost it a task and
two turns of the event loop.

A task whose key, or whose new queue, is in somebody's open transaction has to wait for the end of
that. It does so apart, so that nobody waits with it.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from mainspring.domain.errors import (
    MainspringError,
    OutcomeUnknown,
    PartitionMoving,
    SetupError,
    StoreHeldUp,
    StoreUnavailable,
    Unavailable,
)
from mainspring.domain.task import NewTask, Submission
from mainspring.ports.clock import Clock
from mainspring.ports.store import TaskStore

BATCH_TASKS: Final = 1000
FLIGHTS_MAX: Final = 2
"""Two batches may be on their way, so that one is prepared while the other is written to disk."""

APART_MAX: Final = 2
"""So many of those that are held up ask the store at a time; each takes a connection."""

RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0


class _Waiter:
    """Whoever waits for submissions: one future, however many they are."""

    __slots__ = ("done", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self) -> None:
        """Wait no longer, whatever is still left."""
        if not self.done.done():
            self.done.set_result(None)


class _Item(msgspec.Struct, eq=False):
    """One submission on its way through."""

    task: NewTask
    waiter: _Waiter
    is_first: bool
    """It was made for this call and has not been handed to the store."""

    outcome: Submission | BaseException | None = None
    is_over: bool = False
    """It was answered, or nobody waits for the answer any more."""

    is_sent: bool = False
    """It was handed to the store at least once, so it may have been stored."""

    is_apart: bool = False
    """It was held up by somebody's transaction."""

    def answer(self, outcome: Submission | BaseException) -> None:
        """Tell the one who waits, unless that is over."""
        if self.is_over:
            return
        self.is_over = True
        self.outcome = outcome
        waiter = self.waiter
        waiter.left -= 1
        if not waiter.left:
            waiter.stop()


class GroupCommit:
    """Collects the submissions of one event loop into batches."""

    def __init__(
        self,
        store: TaskStore,
        clock: Clock,
        *,
        timeout_seconds: float = 10.0,
        batch_tasks: int = BATCH_TASKS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._batch_tasks = batch_tasks
        self._waiting: deque[_Item] = deque()
        self._flights: set[asyncio.Future[None]] = set()
        self._apart: set[asyncio.Future[None]] = set()
        self._turns_apart = asyncio.Semaphore(APART_MAX)
        self._crowd = 0
        """How many travelled in the last flight."""

    async def submit(
        self, task: NewTask, timeout: float | None = None, *, first: bool = False
    ) -> Submission:
        """Store one task within `timeout` seconds (default: that of the settings).

        `first` says that it was made for this call and that nobody else has it, which the store
        can make use of.

        Raises `StoreUnavailable` when it was certainly not stored and `OutcomeUnknown` when it may
        have been. A task with an idempotency or unique key whose outcome is unknown is sent again
        until the time is over.
        """
        (outcome,) = await self.submit_many([task], timeout, first=first)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store many tasks; answer for each in order with what became of it, or the error."""
        if not tasks:
            return []
        waiter = _Waiter(len(tasks))
        items = [_Item(task, waiter, first) for task in tasks]
        timeout = timeout or self._timeout_seconds
        try:
            if len(items) == 1 and self._is_alone():
                async with asyncio.timeout(timeout):
                    items_left = await self._go_alone(items)
                    if items_left:
                        await self._travel(items_left, waiter, timeout)
                    await waiter.done
            else:
                await self._travel(items, waiter, timeout)
        except TimeoutError:
            return [_outcome(item) for item in items]
        finally:
            for item in items:
                item.is_over = True
        return [_outcome(item) for item in items]

    async def close(self) -> None:
        """Wait until everything that was accepted has been answered."""
        while pending := self._flights | self._apart:
            await asyncio.wait(pending)

    async def _travel(self, items: list[_Item], waiter: _Waiter, seconds: float) -> None:
        """Wait in the crowd, so long at most. To stop a wait takes no interruption, which would
        cost each caller several times what this timer does.
        """
        timer = asyncio.get_running_loop().call_later(seconds, waiter.stop)
        try:
            self._waiting.extend(items)
            self._take_off()
            await waiter.done
        finally:
            timer.cancel()

    def _is_alone(self) -> bool:
        return not self._flights and not self._waiting and self._crowd == 1

    async def _go_alone(self, batch: list[_Item]) -> list[_Item]:
        """Send from the caller's own task, and return what should be sent again.

        Whoever cancels the caller interrupts the store: what becomes of the task is unknown then,
        as it is to everybody who does not wait for the answer.
        """
        flight = asyncio.get_running_loop().create_future()
        self._flights.add(flight)
        try:
            return await self._send(batch)
        finally:
            flight.set_result(None)
            self._landed(flight)

    def _take_off(self) -> None:
        """Start a flight if none is under way, or a second one for a full batch.

        The flight takes its passengers when it first runs, so that submissions made in the same
        turn of the event loop travel together.
        """
        while self._waiting and len(self._flights) < FLIGHTS_MAX:
            if self._flights and len(self._waiting) < self._batch_tasks:
                return
            flight = asyncio.create_task(self._fly(), name="mainspring-submit")
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Future[None]) -> None:
        self._flights.discard(flight)
        self._take_off()

    async def _fly(self) -> None:
        flight = asyncio.current_task()
        batch: list[_Item] = []
        while self._waiting and len(batch) < self._batch_tasks:
            item = self._waiting.popleft()
            # Whoever gave up before it was sent gets what they asked for: nothing is stored.
            if not item.is_over:
                batch.append(item)
        self._crowd = len(batch)
        pause = RETRY_SECONDS
        while batch:
            batch = await self._send(batch)
            if batch:
                await self._clock.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
                batch = [item for item in batch if not item.is_over]
        # Now, not when the task has ended: whoever was answered may send alone at once.
        self._flights.discard(flight)

    async def _send(self, batch: list[_Item]) -> list[_Item]:
        """Send a batch, answer what can be answered and return what should be sent again."""
        was_sent = [item.is_sent for item in batch]
        first = all(item.is_first for item in batch)
        for item in batch:
            item.is_sent = True
            item.is_first = False
        try:
            submissions = await self._store.submit([item.task for item in batch], first=first)
        except PartitionMoving as error:
            # Nothing was stored by this try, and the next one may be due to another store.
            for item, before in zip(batch, was_sent, strict=True):
                item.answer(_unknown(item) if before else _copy(error))
        except (StoreUnavailable, StoreHeldUp) as error:
            # Nothing was stored by this try; an earlier one may have been.
            for item, before in zip(batch, was_sent, strict=True):
                item.is_sent = before
            return await self._held_up(batch) if isinstance(error, StoreHeldUp) else batch
        except OutcomeUnknown:
            return _after_unknown(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, its own caller gets it
            return await self._refused(batch, error)
        else:
            for item, submission in zip(batch, submissions, strict=True):
                item.answer(submission)
        return []

    async def _held_up(self, batch: list[_Item]) -> list[_Item]:
        """Let those that may be what is held up wait apart, and send the others again at once: it
        is one of the keys, or a queue that somebody else is just making.
        """
        if batch[0].is_apart:
            return batch
        queues: dict[str, list[_Item]] = {}
        for item in batch:
            if _is_repeatable(item.task):
                self._wait_apart(item)
            else:
                queues.setdefault(item.task.queue, []).append(item)
        if [*queues.values()] == [batch]:
            for item in batch:
                self._wait_apart(item)
            return []
        again = await asyncio.gather(*map(self._send, queues.values()))
        return [item for part in again for item in part]

    def _wait_apart(self, item: _Item) -> None:
        item.is_apart = True
        waiting = asyncio.get_running_loop().create_task(self._insist(item))
        self._apart.add(waiting)
        waiting.add_done_callback(self._apart.discard)

    async def _insist(self, item: _Item) -> None:
        left, pause = [item], RETRY_SECONDS
        while left and not item.is_over:
            async with self._turns_apart:
                if not item.is_over:
                    left = await self._send(left)
            await self._clock.sleep(pause if left else 0)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _refused(self, batch: list[_Item], error: Exception) -> list[_Item]:
        """One task that the store refuses must not fail its neighbours: halve until it is alone."""
        if len(batch) == 1 or isinstance(error, Unavailable | SetupError):
            _answer_all(batch, error)
            return []
        middle = len(batch) // 2
        again = await self._send(batch[:middle])
        return again + await self._send(batch[middle:])


def _after_unknown(batch: list[_Item]) -> list[_Item]:
    for item in batch:
        if not _is_repeatable(item.task):
            item.answer(_unknown(item))
    return [item for item in batch if _is_repeatable(item.task)]


def _is_repeatable(task: NewTask) -> bool:
    """Whether the store looks for the task before it makes it, also the first time."""
    return task.key is not None or task.unique_key is not None


def _answer_all(batch: list[_Item], error: Exception) -> None:
    for item in batch:
        item.answer(_copy(error))


def _copy(error: Exception) -> Exception:
    """An exception object carries one traceback, so callers do not share one."""
    if isinstance(error, MainspringError):
        copied = type(error)(error.message, field=error.field)
        copied.__cause__ = error
        return copied
    return error


def _outcome(item: _Item) -> Submission | BaseException:
    return _late(item) if item.outcome is None else item.outcome


def _late(item: _Item) -> MainspringError:
    if item.is_sent:
        return _unknown(item)
    if item.is_apart:
        return StoreUnavailable(
            "nothing was stored, because the key or the new queue of the task is in a transaction "
            "of somebody else that has not ended; try again when it has"
        )
    return StoreUnavailable(
        "the task store did not answer in time and nothing was stored; check that the database "
        "is reachable and try again"
    )


def _unknown(item: _Item) -> OutcomeUnknown:
    task = item.task
    if task.key is not None:
        way_out = f"submit it again with the same key {task.key!r}, which cannot make a second one"
    elif task.unique_key is not None:
        way_out = "submit it again; none is made beside it while it is live"
    else:
        way_out = (
            "look for this id before you submit it again; with a key (options(key=...)) it is "
            "safe to repeat"
        )
    return OutcomeUnknown(
        f"the connection broke while task {task.id} was being stored, so it may or may not exist; "
        + way_out
    )
