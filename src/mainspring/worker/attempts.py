"""Every attempt of a worker, from its claim to its stored ending."""

import asyncio
import itertools
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from mainspring.core.registry import Mode
from mainspring.domain.task import (
    Cancelled,
    CommittedElsewhere,
    Ending,
    Failure,
    FailureKind,
    Lease,
    LeaseRef,
    Released,
    Retried,
)
from mainspring.worker.completer import Completer
from mainspring.worker.exclusion import Exclusion
from mainspring.worker.execution import timed_out
from mainspring.worker.fleet import Fleet
from mainspring.worker.held import Held, Holdings, WorkerStats
from mainspring.worker.leases import LeaseKeeper
from mainspring.worker.messages import (
    Committing,
    Ended,
    Overdue,
    Progressed,
    Ready,
    Renew,
    Renewed,
    StopReason,
    ToAgent,
)
from mainspring.worker.pace import Pace
from mainspring.worker.processes import RunnerProcess
from mainspring.worker.setting import Setting

BACK_SECONDS: Final = 1.0
_SOLO_WAITING: Final = 4
"""Tasks that crashed before and may wait for each solo process."""

_DROPPED_KEPT: Final = 10_000


class Attempts:
    """Decides what happens to each attempt; listens to the runners."""

    def __init__(self, setting: Setting, runner_command: Sequence[str]) -> None:
        self._registry = setting.registry
        self._clock = setting.clock
        self._chance = setting.chance
        self._log = setting.log
        self._solo_waiting_max = _SOLO_WAITING * setting.options.solo_processes
        self._numbers = itertools.count(1)
        self._holdings: Holdings = {}
        self._reporting: dict[int, Held] = {}
        self._replies: set[asyncio.Task[None]] = set()
        self._locking: set[asyncio.Task[None]] = set()
        self.stats = WorkerStats()
        self.pace = Pace()
        self.room = asyncio.Event()
        """Set when slots have become free."""

        self.reported = asyncio.Event()
        """Set when there is progress to store."""

        self.dropped: deque[LeaseRef] = deque(maxlen=_DROPPED_KEPT)
        """Leases that this worker gave up last, and that may still be its own in the store."""

        self.is_draining = False
        """What is claimed from now on goes back at once."""

        self.fleet = Fleet(setting, runner_command, self)
        self.completer = Completer(setting, self._holdings, self.stats)
        self.keeper = LeaseKeeper(setting, self._holdings, self.stop)
        self.exclusion = Exclusion(setting, self.stop)

    def __len__(self) -> int:
        return len(self._holdings)

    def references(self) -> set[LeaseRef]:
        """Return the leases held, those included of which only the ending is still to be stored."""
        return {held.reference for held in self._holdings.values()}

    def take(self, leases: list[Lease], expires_at: float) -> None:
        """Accept claimed leases, in the order in which they should start."""
        now = self._clock.monotonic()
        for lease in leases:
            held = Held(next(self._numbers), lease, self._mode(lease), now, expires_at)
            self._holdings[held.number] = held
            if self.is_draining:
                self.completer.add(held, Released())
            elif held.mode is Mode.PROCESS and self._has_no_place(lease):
                self._give_back(held)
            elif self.exclusion.applies_to(lease):
                self._lock_in(self._enter(held))
            else:
                self.fleet.add(held)
        self.stats.claimed += len(leases)
        self.fleet.pump()

    async def unlocked(self) -> None:
        """Wait until no lock is being taken or given up."""
        while self._locking:
            await asyncio.wait(self._locking)

    def release_waiting(self, before: float | None = None) -> None:
        """Hand back what waits for a slot since before a time, or all of it."""
        for held in self.fleet.take_waiting(before):
            self._give_back(held)

    def stop_running(self, reason: StopReason) -> None:
        """Stop every attempt that is in a runner."""
        for runner in self.fleet.runners():
            for held in tuple(runner.held.values()):
                self.stop(held, reason)

    def stop(self, held: Held, reason: StopReason) -> None:
        """Stop an attempt wherever it is. Only the loss of its lease outranks an earlier reason."""
        earlier = held.stopped_by
        if held.is_settling or earlier is StopReason.LOST:
            return
        if earlier is not None and reason is not StopReason.LOST:
            return
        held.stopped_by = reason
        held.stopped_at = self._clock.monotonic()
        if held.dispatched_at is not None:
            self.fleet.stop(held)
            return
        self.fleet.remove(held)
        if reason is StopReason.LOST:
            self._drop(held)
        else:
            self._finish(held, Cancelled() if reason is StopReason.CANCEL else Released())

    def take_progress(self) -> list[Held]:
        """Return the attempts with progress that is not stored yet."""
        self.reported.clear()
        reporting, self._reporting = self._reporting, {}
        return list(reporting.values())

    def report_again(self, attempts: Iterable[Held]) -> None:
        """Take back attempts whose progress could not be stored."""
        for held in attempts:
            if not held.is_settling:
                self._reporting.setdefault(held.number, held)
                self.reported.set()

    def runner_ready(self, runner: RunnerProcess) -> None:
        """Called by a runner that has loaded the app."""
        del runner
        self.fleet.pump()
        self.room.set()

    def runner_said(self, runner: RunnerProcess, messages: list[ToAgent]) -> None:
        """Called with what a runner said."""
        has_room = False
        for message in messages:
            if type(message) is Ended:
                held = runner.ended(message.number)
                if held is not None:
                    has_room = True
                    self._ended(held, message)
            else:
                self._heard(runner, message)
        if has_room:
            if runner.is_solo:
                runner.idle_since = self._clock.monotonic()
            self.fleet.pump()
            self.room.set()

    def runner_died(self, runner: RunnerProcess) -> None:
        """Called when a runner process has ended, for whatever reason."""
        if runner.was_killed:
            self.stats.runners_killed += bool(runner.held)
        else:
            self.stats.runners_crashed += 1
            self._log.warning(
                "a runner process died",
                pid=runner.pid,
                status=runner.status,
                tasks=len(runner.held),
            )
        for held in tuple(runner.held.values()):
            runner.ended(held.number)
            self._died(held, runner)
        self.fleet.bury(runner)
        self.fleet.pump()
        self.room.set()

    def _mode(self, lease: Lease) -> Mode:
        if lease.crash_count:
            # Whatever took its process down before shall take no neighbours down again.
            return Mode.PROCESS
        if lease.task_type not in self._registry:
            return Mode.ASYNC
        return self._registry.get(lease.task_type).mode

    def _has_no_place(self, lease: Lease) -> bool:
        """Tasks that crashed before may wait here for a process, since any worker has few; others
        are left to workers that have one.
        """
        allowed = self._solo_waiting_max if lease.crash_count else 0
        return self.fleet.room(Mode.PROCESS) <= -allowed

    def _give_back(self, held: Held) -> None:
        # What crashed before is claimed with all others of its kind, so it would be back at once.
        is_delayed = held.lease.crash_count and not self.is_draining
        self._finish(held, Released(BACK_SECONDS if is_delayed else 0.0))

    def _ended(self, held: Held, message: Ended) -> None:
        self.pace.ended[held.mode] += 1
        if held.progress is not None:
            self._reporting.pop(held.number, None)
        if held.stopped_by is StopReason.LOST:
            self._drop(held)
        else:
            self._finish(held, message.ending)

    def _heard(self, runner: RunnerProcess, message: ToAgent) -> None:
        if isinstance(message, Ready) or message.number not in runner.held:
            return
        held = runner.held[message.number]
        match message:
            case Progressed():
                held.progress = message.progress
                self._reporting[held.number] = held
                self.reported.set()
            case Renew():
                reply = asyncio.get_running_loop().create_task(self._reply(runner, held))
                self._replies.add(reply)
                reply.add_done_callback(self._replies.discard)
            case Committing():
                held.is_committing = True
            case Overdue():
                held.overdue_at = self._clock.monotonic()
                held.stopped_by = held.stopped_by or StopReason.TIMEOUT
            case _:
                return

    async def _reply(self, runner: RunnerProcess, held: Held) -> None:
        is_held = await self.keeper.renew_one(held)
        if not runner.is_dead:
            runner.tell(Renewed(held.number, is_held))

    async def _enter(self, held: Held) -> None:
        """Let an exclusive task start when it has its lock."""
        seconds: float | None = BACK_SECONDS
        try:
            seconds = await self.exclusion.take(held)
        finally:
            # Whatever goes wrong, its lease must not be kept for an attempt that never starts.
            await self._entered(held, seconds)

    async def _entered(self, held: Held, seconds: float | None) -> None:
        if held.is_settling or held.number not in self._holdings:
            await self.exclusion.give_up(held)
        elif seconds is not None:
            self.completer.add(held, Released(seconds))
        elif held.stopped_by is not None or self.is_draining:
            self._finish(held, Released())
        else:
            self.fleet.add(held)
            self.fleet.pump()

    def _finish(self, held: Held, ending: Ending | CommittedElsewhere) -> None:
        """Store how an attempt ended, after its lock, so that the next one can have that."""
        if held.locked_until is None:
            self.completer.add(held, ending)
        else:
            held.is_settling = True
            self._lock_in(self._leave(held, ending))

    async def _leave(self, held: Held, ending: Ending | CommittedElsewhere) -> None:
        try:
            await self.exclusion.give_up(held)
        finally:
            self.completer.add(held, ending)

    def _lock_in(self, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(steps)
        self._locking.add(task)
        task.add_done_callback(self._locking.discard)

    def _drop(self, held: Held) -> None:
        """The lease is lost, so the outcome is somebody else's."""
        if held.locked_until is not None:
            self._lock_in(self.exclusion.give_up(held))
        if self._holdings.pop(held.number, None) is not None:
            self.dropped.append(held.reference)
        self.stats.lost += 1
        self._log.warning("a lease was lost; the attempt was stopped", task_id=str(held.lease.id))

    def _died(self, held: Held, runner: RunnerProcess) -> None:
        if held.stopped_by is StopReason.LOST:
            self._drop(held)
        elif not runner.has_begun(held):
            self._finish(held, Released())
        elif not runner.was_killed:
            message = f"the process that ran it died ({runner.status})"
            why = Failure(kind=FailureKind.CRASHED, message=message)
            self._finish(held, self._retried(held, why))
        elif held.stopped_by is StopReason.CANCEL:
            self._finish(held, Cancelled())
        elif held.stopped_by is StopReason.TIMEOUT:
            self._finish(held, self._retried(held, timed_out(held.lease)))
        else:
            self._finish(held, Released())

    def _retried(self, held: Held, why: Failure) -> Retried:
        return Retried(why, held.lease.backoff.delay(held.lease.attempt, self._chance.random()))
