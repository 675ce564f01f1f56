"""A worker without processes: handlers follow a script instead of running somewhere.

What matters for ownership is real: `worker.leases` renews, watches and gives up leases,
`worker.completer` stores endings, and `FairShare` orders the starts.
"""

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

import structlog

from mainspring.core.registry import Mode, Registry
from mainspring.domain.errors import Unavailable
from mainspring.domain.priority import FairShare, rank
from mainspring.domain.task import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    Lease,
    Released,
    Retried,
)
from mainspring.ports.store import (
    Claim,
    ClaimRequest,
)
from mainspring.ports.workers import WorkerState
from mainspring.worker.completer import Completer
from mainspring.worker.held import Held, WorkerStats
from mainspring.worker.leases import LeaseKeeper
from mainspring.worker.messages import StopReason
from mainspring.worker.options import WorkerOptions
from mainspring.worker.setting import Setting
from simulation.audit import Audit
from simulation.network import Connection, Process, StoreClock

LEASE_SECONDS = 6.0
HEARTBEAT_SECONDS = 2.0
TICK_SECONDS = 0.5
BEAT_TICKS = 6
POLL_SECONDS = 1.5
LABELS = ("gpu",)

OPTIONS = WorkerOptions(
    lease_seconds=LEASE_SECONDS, heartbeat_seconds=HEARTBEAT_SECONDS, claim_limit=20
)

SILENT = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class Plot(Protocol):
    """What handlers will do, task by task."""

    def act(self, lease: Lease) -> "Act": ...

    def crash(self, worker: "Worker") -> None: ...


@dataclass(frozen=True, slots=True)
class Act:
    """One attempt: how long it takes and how it ends; no ending: it kills its worker."""

    seconds: float
    ending: Ending | None
    heeds_cancel: bool = True


@dataclass(eq=False, slots=True)
class Execution:
    """A handler that runs."""

    held: Held
    task: asyncio.Task[None] | None = None


@dataclass(eq=False)
class Worker:
    """One worker process."""

    process: Process
    store: Connection
    audit: Audit
    plot: Plot
    slots: int
    task_types: tuple[str, ...]
    told: dict[UUID, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        setting = Setting(
            self.store,  # type: ignore[arg-type]  # a Store by __getattr__
            self.process,
            self.process,
            Registry(),
            self.process.name,
            OPTIONS,
            SILENT,
        )
        self.holdings: dict[int, Held] = {}
        self.executions: dict[int, Execution] = {}
        self.share = FairShare()
        self.numbers = 0
        self.is_draining = False
        self.completer = Completer(setting, self.holdings, WorkerStats())
        self.keeper = LeaseKeeper(setting, self.holdings, self.stop)

    def start(self) -> None:
        for part in (self.claim(), self.keeper.keep(), self.keeper.watch(), self.tick()):
            self.process.start(part)

    async def claim(self) -> None:
        wakeups = self.store.wakeups()
        while not self.is_draining:
            free = self.slots - len(self.holdings)
            pause = POLL_SECONDS
            if free > 0:
                try:
                    pause = await self.take(free)
                except Unavailable:
                    pause = self.process.chance.uniform(0.1, 0.5)
            if pause > 0:
                await wakeups.wait(pause)
            await self.process.awake()
        await wakeups.close()

    async def take(self, free: int) -> float:
        """Claim, start what came, and return how long to wait before the next claim."""
        sent_at = self.process.monotonic()
        request = ClaimRequest(
            worker_id=self.process.name,
            limit=free,
            lease_seconds=LEASE_SECONDS,
            task_types=self.task_types,
            labels=LABELS,
            served=self.share.served,
        )
        claim: Claim = await self.store.claim(request)
        leases = sorted(
            claim.leases, key=lambda lease: (rank(lease.priority, lease.scheduled_at), lease.id.int)
        )
        for lease in self.share.order([(lease.lane, lease) for lease in leases]):
            self.begin(lease, sent_at)
        if claim.next_due_seconds is None:
            return POLL_SECONDS
        return min(claim.next_due_seconds, POLL_SECONDS)

    def begin(self, lease: Lease, sent_at: float) -> None:
        self.numbers += 1
        held = Held(
            self.numbers, lease, Mode.ASYNC, self.process.monotonic(), sent_at + LEASE_SECONDS
        )
        self.holdings[held.number] = held
        # What the real worker does at its next tick, before it starts any more.
        self.keeper.drop_expired(self.process.monotonic())
        if held.number not in self.holdings:
            return
        held.dispatched_at = self.process.monotonic()
        execution = Execution(held)
        self.executions[held.number] = execution
        execution.task = self.process.start(self.execute(execution))

    async def execute(self, execution: Execution) -> None:
        held = execution.held
        act = self.plot.act(held.lease)
        self.audit.executing(self.process.name, held.lease, StoreClock().now())
        how = "stopped"
        ending: Ending | None = None
        try:
            await self.process.sleep(act.seconds)
            how, ending = "done", act.ending
        except asyncio.CancelledError:
            if self.process.is_dead:
                raise
            if held.stopped_by is not StopReason.LOST:
                ending = Cancelled() if held.stopped_by is StopReason.CANCEL else Released()
        finally:
            self.executions.pop(held.number, None)
            if not self.process.is_dead:
                self.audit.executed(held.lease, StoreClock().now(), how)
        if ending is not None:
            self.completer.add(held, ending)
        elif how == "done":
            self.plot.crash(self)
        else:
            self.holdings.pop(held.number, None)

    def stop(self, held: Held, reason: StopReason) -> None:
        """Stop a handler, as `worker.attempts` does it; some do not care about a cancellation."""
        execution = self.executions.get(held.number)
        if execution is None or execution.task is None:
            self.holdings.pop(held.number, None)
            return
        if held.stopped_by not in {None, reason} and reason is not StopReason.LOST:
            return
        if reason is StopReason.CANCEL:
            self.told.setdefault(held.lease.id, self.process.monotonic())
            if not self.plot.act(held.lease).heeds_cancel:
                return
        if held.stopped_by is not reason:
            held.stopped_by = reason
            execution.task.cancel()

    async def tick(self) -> None:
        state = WorkerState(
            worker_id=self.process.name,
            hostname="host",
            pid=1,
            task_types=self.task_types,
            queues=None,
            lanes=None,
            labels=LABELS,
            slots=self.slots,
        )
        beats = 0
        while True:
            await self.process.sleep(TICK_SECONDS)
            self.keeper.drop_expired(self.process.monotonic())
            beats += 1
            if beats % BEAT_TICKS == 0:
                with suppress(Unavailable):
                    await self.store.beat(state)

    async def drain(self, grace_seconds: float) -> None:
        """End as on SIGTERM: take nothing, let run for a while, hand back the rest."""
        self.is_draining = True
        await self.process.sleep(grace_seconds)
        for execution in list(self.executions.values()):
            self.stop(execution.held, StopReason.DRAIN)
        while self.holdings:
            await self.process.sleep(0.1)


def random_act(chance: random.Random, *, poison: bool) -> Act:
    """What a handler does in one attempt."""
    seconds = chance.choice((0.0, 0.05, 0.5, chance.uniform(0, 3), chance.uniform(0, 12)))
    failure = Failure(kind=FailureKind.ERROR, message="ValueError: no")
    crash = Failure(kind=FailureKind.CRASHED, message="runner died")
    endings: tuple[Ending, ...] = (
        Completed('{"ok": true}'),
        Retried(failure, chance.choice((0.0, 0.5, 4.0))),
        Retried(crash, 0.5),
        Failed(failure),
        Cancelled("not needed"),
        Released(chance.choice((0.0, 1.0, 5.0))),
    )
    (ending,) = chance.choices(endings, weights=(70, 12, 5, 3, 3, 7))
    # One that does not look up before it is done, and one that is about to wait anyway.
    heeds_cancel = chance.random() < 0.85 and not isinstance(ending, Released)
    return Act(seconds, None if poison else ending, heeds_cancel=heeds_cancel)
