"""The parent process of a worker: owns the leases and is never in the way of a handler."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from structlog.typing import FilteringBoundLogger

from mainspring.core.registry import Registry
from mainspring.domain.errors import MainspringError, Unavailable
from mainspring.ports.clock import Chance, Clock
from mainspring.ports.locks import Locks
from mainspring.ports.store import (
    Hint,
    Store,
)
from mainspring.ports.workers import WorkerState
from mainspring.worker.attempts import Attempts
from mainspring.worker.claims import Claimer
from mainspring.worker.enforcer import Enforcer
from mainspring.worker.held import WorkerStats
from mainspring.worker.messages import StopReason
from mainspring.worker.options import WorkerOptions
from mainspring.worker.progress import send_progress
from mainspring.worker.setting import Setting
from mainspring.worker.strays import Strays
from mainspring.worker.waiting import first_of

TICK_SECONDS: Final = 0.2
BEAT_SECONDS: Final = 5.0
WAIT_SECONDS_MAX: Final = 2.0
"""A claimed task that has waited here for so long goes back, for a worker that is less busy."""

_HINT_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0
_PROGRESS_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 0.3
"""How long handlers may go on after they were told that the worker ends now."""

_STORE_SECONDS: Final = 3.0
"""How long a worker that ends waits for the store to take what it hands back."""


class Agent:
    """A worker. `run` works until `drain` is called, and ends when everything is handed back.

    `runner_command` starts a child process that calls `runner_main`; the agent adds ``--fd N``.
    `locks`, which it closes, are for exclusive tasks; without any it cannot run these.
    """

    name = "worker"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        *,
        registry: Registry,
        worker_id: str,
        options: WorkerOptions,
        runner_command: Sequence[str],
        log: FilteringBoundLogger,
        locks: Locks | None = None,
    ) -> None:
        self._setting = Setting(store, clock, chance, registry, worker_id, options, log, locks)
        self._store = store
        self._clock = clock
        self._log = log
        self._attempts = Attempts(self._setting, runner_command)
        self._fleet = self._attempts.fleet
        self._claimer = Claimer(self._setting, self._attempts)
        self._strays = Strays(self._setting, self._attempts, self._claimer)
        self._enforcer = Enforcer(options.grace_seconds, log)
        self._drain_by: float | None = None
        self._quiet_until = 0.0
        self._is_open = False
        self._asked = asyncio.Event()
        self._finished = asyncio.Event()

    @property
    def stats(self) -> WorkerStats:
        """What this worker has done so far, and how busy it is."""
        stats = self._attempts.stats
        stats.waiting = self._fleet.waiting_count()
        stats.busy = self._fleet.busy_count()
        return stats

    @property
    def state(self) -> str:
        """`ok` while it takes tasks, else `starting` or `draining`."""
        if self._drain_by is not None or self._attempts.is_draining:
            return "draining"
        return "ok" if self._is_open else "starting"

    async def run(self) -> None:
        """Work until `drain` is called; cancelling it hands everything back at once."""
        duties: list[asyncio.Task[None]] = []
        try:
            if self._drain_by is None:
                await self._fleet.open()
                duties += self._start_duties()
                self._is_open = True
                await self._until_asked()
                await self._finish_running()
                await self._finish_storing()
        finally:
            try:
                await self._hand_back()
                for duty in duties:
                    duty.cancel()
                await asyncio.gather(*duties, return_exceptions=True)
                await self._leave()
            finally:
                self._finished.set()

    async def run_once(self) -> int:
        """Claim once and start what was claimed; returns how many attempts are held now."""
        await self._claimer.claim(self._claimer.modes)
        return len(self._attempts)

    async def drain(self, grace_seconds: float | None = None) -> None:
        """Stop claiming, let running tasks finish for so long (default: `drain_seconds`), hand
        the rest back uncharged, and return when `run` has ended. A second call may shorten it.
        """
        grace = self._setting.options.drain_seconds if grace_seconds is None else grace_seconds
        by = self._clock.monotonic() + grace
        self._drain_by = by if self._drain_by is None else min(by, self._drain_by)
        self._asked.set()
        await self._finished.wait()

    def _start_duties(self) -> list["asyncio.Task[None]"]:
        duties: tuple[Callable[[], Awaitable[None]], ...] = (
            self._claimer.run,
            self._listen,
            self._attempts.keeper.keep,
            self._attempts.keeper.watch,
            self._attempts.exclusion.keep,
            self._strays.run,
            self._tick,
            self._store_progress,
            self._beat,
        )
        loop = asyncio.get_running_loop()
        return [loop.create_task(self._go_on(duty)) for duty in duties]

    async def _go_on(self, duty: Callable[[], Awaitable[None]]) -> None:
        """Keep a duty going through outages of the store and through faults of our own."""
        while True:
            try:
                await duty()
            except MainspringError as error:
                self._tell_away(error)
            except Exception:  # noqa: BLE001 - whatever it is, the other duties go on
                self._log.exception("a duty of the worker failed and starts again")
            else:
                return
            await self._clock.sleep(_RETRY_SECONDS)

    def _tell_away(self, error: MainspringError) -> None:
        """Once for all duties, and again now and then: an outage is one event, not thousands."""
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            what = "is away" if isinstance(error, Unavailable) else "refuses this worker"
            self._log.warning(f"the task store {what}; trying again", error=str(error))

    async def _listen(self) -> None:
        wakeups = self._store.wakeups()
        try:
            while True:
                hints = await wakeups.wait(_HINT_SECONDS)
                if Hint.READY in hints:
                    self._claimer.hint_ready()
                if Hint.CANCEL in hints:
                    self._attempts.keeper.hint_cancel()
        finally:
            await wakeups.close()

    async def _tick(self) -> None:
        """The one regular look at everything that has a time limit."""
        before = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_SECONDS)
            now = self._clock.monotonic()
            self._attempts.pace.measure(max(now - before, TICK_SECONDS))
            before = now
            self._attempts.keeper.drop_expired(now)
            self._attempts.exclusion.drop_expired(now)
            self._enforcer.enforce(self._fleet.runners(), now)
            self._fleet.look()
            self._attempts.release_waiting(before=now - WAIT_SECONDS_MAX)

    async def _store_progress(self) -> None:
        while True:
            await self._attempts.reported.wait()
            reporting = self._attempts.take_progress()
            for place, held in enumerate(reporting):
                try:
                    is_held = await send_progress(self._store, held)
                except MainspringError:
                    self._attempts.report_again(reporting[place:])
                    raise
                if not is_held:
                    self._attempts.stop(held, StopReason.LOST)
            # What is replaced meanwhile is never written.
            await self._clock.sleep(_PROGRESS_SECONDS)

    async def _beat(self) -> None:
        while True:
            await self._store.beat(self._state())
            await self._clock.sleep(BEAT_SECONDS)

    def _state(self) -> WorkerState:
        options = self._setting.options
        return WorkerState(
            worker_id=self._setting.worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            task_types=self._setting.registry.names(),
            queues=options.queues,
            lanes=options.lanes,
            labels=options.labels,
            slots=sum(self._fleet.capacity(mode) for mode in self._claimer.modes),
            busy=self._fleet.busy_count(),
            draining=self._drain_by is not None,
        )

    async def _until_asked(self) -> None:
        await self._asked.wait()
        self._attempts.is_draining = True
        self._claimer.stop()
        self._attempts.release_waiting()
        # The register informs people: nothing that it answers keeps running tasks from finishing.
        with suppress(MainspringError, TimeoutError):
            async with asyncio.timeout(_STORE_SECONDS):
                await self._store.beat(self._state())

    async def _finish_running(self) -> None:
        """Wait until nothing runs, but not for longer than was last asked for."""
        while self._fleet.busy_count() and (left := self._left_to_drain()) > 0:
            self._attempts.room.clear()
            self._asked.clear()
            await first_of(left, self._attempts.room, self._asked)

    async def _finish_storing(self) -> None:
        """Wait, as long, until every ending is stored: a store whose primary just changes would
        cost what has been done another run.
        """
        stored = asyncio.Event()
        storing = asyncio.create_task(self._store_endings(stored))
        try:
            while not stored.is_set() and (left := self._left_to_drain()) > 0:
                self._asked.clear()
                await first_of(left, stored, self._asked)
        finally:
            storing.cancel()

    async def _store_endings(self, stored: asyncio.Event) -> None:
        await self._claimer.idle.wait()
        await self._attempts.unlocked()
        await self._attempts.completer.finish()
        await self._strays.finish()
        stored.set()

    def _left_to_drain(self) -> float:
        return 0.0 if self._drain_by is None else self._drain_by - self._clock.monotonic()

    async def _hand_back(self) -> None:
        """Stop what still runs, give its tasks back uncharged and end the runners."""
        self._attempts.is_draining = True
        self._claimer.stop()
        self._attempts.release_waiting()
        self._attempts.stop_running(StopReason.DRAIN)
        by = self._clock.monotonic() + _STOP_SECONDS
        while self._fleet.busy_count() and (left := by - self._clock.monotonic()) > 0:
            self._attempts.room.clear()
            await first_of(left, self._attempts.room)
        await self._fleet.close()
        with suppress(MainspringError, TimeoutError):
            async with asyncio.timeout(_STORE_SECONDS):
                await self._store_endings(asyncio.Event())
        await self._attempts.completer.close()

    async def _leave(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STORE_SECONDS):
                await self._attempts.exclusion.close()
        with suppress(MainspringError, TimeoutError):
            async with asyncio.timeout(_STORE_SECONDS):
                await self._store.leave(self._setting.worker_id)
