"""Storing how attempts ended, in batches that form by themselves.

One flight takes what has ended so far; what ends meanwhile waits for the next one, or for a second
one beside it when a full batch has gathered. Each part of a divided store has flights of its own,
so that one that is away holds up no ending of the others. An ending is sent again for as long as
the store is away, also when its lease is over by then: while the store was away nobody else could
take the task either, and if someone did since, the fencing token says so.
"""

import asyncio
from collections import deque
from functools import partial
from typing import Final

import msgspec

from mainspring.domain.errors import OutcomeUnknown, SetupError, StaleLease, Unavailable
from mainspring.domain.task import (
    Cancelled,
    CommittedElsewhere,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    Released,
    Retried,
    Settlement,
)
from mainspring.worker.execution import failure
from mainspring.worker.held import Held, Holdings, WorkerStats
from mainspring.worker.progress import send_progress
from mainspring.worker.setting import Setting

FLIGHTS_MAX: Final = 2
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
BEHIND_BATCHES: Final = 20
"""So many full batches of endings may wait before the worker takes no more tasks."""

_SHOWN: Final = 5


class _Item(msgspec.Struct, eq=False, gc=False):
    """One ending on its way to the store."""

    held: Held
    ending: Ending | CommittedElsewhere
    is_uncertain: bool = False
    """An earlier try of it may have been stored."""


class _Line:
    """The endings that go to one part of the store."""

    def __init__(self) -> None:
        self.waiting: deque[_Item] = deque()
        self.flights: set[asyncio.Task[None]] = set()


class Completer:
    """Takes endings and stores them; `holdings` loses each lease that is done with."""

    def __init__(self, setting: Setting, holdings: Holdings, stats: WorkerStats) -> None:
        self._store = setting.store
        self._clock = setting.clock
        self._chance = setting.chance
        self._log = setting.log
        self._batch_tasks = setting.options.claim_limit
        self._holdings = holdings
        self._stats = stats
        self._lines: dict[int, _Line] = {}
        self._freed: set[tuple[str, str]] = set()
        self.has_freed = asyncio.Event()
        """Set when a task of a group ended, so that a limit may leave room for another."""

    @property
    def is_behind(self) -> bool:
        """Whether endings wait that should be stored before more tasks are run."""
        waiting = sum(len(line.waiting) for line in self._lines.values())
        return waiting > BEHIND_BATCHES * self._batch_tasks

    def take_freed(self) -> tuple[tuple[str, str], ...]:
        """Return the groups of which tasks completed in transactions of their handlers since the
        last call: the store did not see that room was made.
        """
        freed, self._freed = tuple(self._freed), set()
        return freed

    def add(self, held: Held, ending: Ending | CommittedElsewhere) -> None:
        """Store how an attempt ended, soon."""
        held.is_settling = True
        number = self._store.shard_of(held.lease.id)
        line = self._lines.get(number)
        if line is None:
            line = self._lines[number] = _Line()
        line.waiting.append(_Item(held, ending))
        self._take_off(line)

    async def finish(self) -> None:
        """Wait until everything has been stored or given up."""
        while flights := self._flights():
            await asyncio.wait(flights)

    async def close(self) -> None:
        """Give up what could not be stored; its leases end by themselves."""
        left = sum(held.is_settling for held in self._holdings.values())
        if left:
            self._stats.abandoned += left
            self._log.warning(
                "endings were not stored in time; their tasks run again when the leases are over",
                count=left,
            )
        for line in self._lines.values():
            line.waiting.clear()
        flights = self._flights()
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _flights(self) -> tuple[asyncio.Task[None], ...]:
        return tuple(flight for line in self._lines.values() for flight in line.flights)

    def _take_off(self, line: _Line) -> None:
        flights = len(line.flights)
        if not line.waiting or flights >= FLIGHTS_MAX:
            return
        if flights and len(line.waiting) < self._batch_tasks:
            return
        flight = asyncio.get_running_loop().create_task(self._fly(line), name="mainspring-settle")
        line.flights.add(flight)
        flight.add_done_callback(partial(self._landed, line))

    def _landed(self, line: _Line, flight: asyncio.Task[None]) -> None:
        line.flights.discard(flight)
        self._take_off(line)

    async def _fly(self, line: _Line) -> None:
        waiting = line.waiting
        batch = [waiting.popleft() for _ in range(min(len(waiting), self._batch_tasks))]
        pause = PAUSE_SECONDS
        try:
            while batch:
                batch = await self._send(batch)
                if batch:
                    await self._clock.sleep(pause * (1 + self._chance.random()))
                    pause = min(pause * 2, PAUSE_SECONDS_MAX)
        finally:
            for item in batch:
                self._holdings.pop(item.held.number, None)

    async def _send(self, batch: list[_Item]) -> list[_Item]:
        """Send a batch and return what should be sent again."""
        try:
            await self._store_progress(batch)
            # What follows is about the others alone, also when they are sent again.
            batch = await self._without_committed(batch)
            answers = await self._store.settle([_settlement(item) for item in batch])
        except (Unavailable, SetupError) as error:
            # A store that refuses everybody, as with a password that was changed, says nothing of
            # these endings either.
            for item in batch:
                item.is_uncertain = item.is_uncertain or isinstance(error, OutcomeUnknown)
            return batch
        except Exception as error:  # noqa: BLE001 - an ending that the store cannot hold
            return await self._isolate(batch, error)
        self._settled(batch, answers)
        return []

    def _settled(self, batch: list[_Item], answers: list[bool]) -> None:
        stale: list[_Item] = []
        holdings, stats = self._holdings, self._stats
        for item, is_accepted in zip(batch, answers, strict=True):
            holdings.pop(item.held.number, None)
            if item.held.lease.group_key is not None:
                self.has_freed.set()
            if is_accepted:
                _count(stats, item.ending)
            elif item.is_uncertain:
                stats.repeated += 1
            else:
                stale.append(item)
        if stale:
            stats.stale += len(stale)
            self._log.warning(
                "endings refused: the leases had been lost",
                code=StaleLease.code,
                count=len(stale),
                tasks=[str(item.held.lease.id) for item in stale[:_SHOWN]],
            )

    async def _store_progress(self, batch: list[_Item]) -> None:
        """What a handler said last is kept with the finished task."""
        for item in batch:
            if item.held.progress is not None:
                await send_progress(self._store, item.held)

    async def _without_committed(self, batch: list[_Item]) -> list[_Item]:
        """Check the tasks that handlers say they have completed themselves."""
        claimed = [item for item in batch if isinstance(item.ending, CommittedElsewhere)]
        if not claimed:
            return batch
        renewals = await self._store.watch([item.held.reference for item in claimed])
        for item, renewal in zip(claimed, renewals, strict=True):
            if renewal.held:
                item.ending = self._not_committed(item.held)
            else:
                self._holdings.pop(item.held.number, None)
                self._stats.completed += 1
                lease = item.held.lease
                if lease.group_key is not None:
                    self._freed.add((lease.queue, lease.group_key))
                    self.has_freed.set()
        return [item for item in batch if not isinstance(item.ending, CommittedElsewhere)]

    def _not_committed(self, held: Held) -> Retried:
        message = (
            "complete_in was called, but its transaction was not committed before the handler "
            "returned; commit it, or let its error leave the handler"
        )
        delay = held.lease.backoff.delay(held.lease.attempt, self._chance.random())
        return Retried(Failure(kind=FailureKind.ERROR, message=message), delay)

    async def _isolate(self, batch: list[_Item], error: Exception) -> list[_Item]:
        """One ending that the store refuses must not fail its neighbours: halve until alone."""
        for item in batch:
            # Endings of other kinds in this batch may have been stored before the refusal.
            item.is_uncertain = item.is_uncertain or len(batch) > 1
        if len(batch) > 1:
            middle = len(batch) // 2
            again = await self._send(batch[:middle])
            return again + await self._send(batch[middle:])
        item = batch[0]
        if isinstance(item.ending, Completed):
            item.ending = Failed(failure(FailureKind.INVALID_RESULT, error))
            return await self._send(batch)
        self._stats.abandoned += 1
        self._holdings.pop(item.held.number, None)
        self._log.error(
            "an ending cannot be stored; the task runs again when its lease is over",
            task_id=str(item.held.lease.id),
            exc_info=error,
        )
        return []


def _settlement(item: _Item) -> Settlement:
    assert not isinstance(item.ending, CommittedElsewhere)
    return Settlement(item.held.lease.id, item.held.lease.fencing_token, item.ending)


def _count(stats: WorkerStats, ending: Ending | CommittedElsewhere) -> None:
    kind = type(ending)
    if kind is Completed:
        stats.completed += 1
    elif kind is Retried:
        stats.retried += 1
    elif kind is Failed:
        stats.failed += 1
    elif kind is Cancelled:
        stats.cancelled += 1
    elif kind is Released:
        stats.released += 1
