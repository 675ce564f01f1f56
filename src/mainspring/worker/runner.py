"""The child process that executes handlers.

It takes attempts from the agent over one channel and answers with their endings. It keeps no
lease, writes nothing to the store, and ends with the agent.
"""

import asyncio
import ctypes
import io
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final, NamedTuple

import uvloop

from mainspring.core.locking import Locker, Lockers, no_locker
from mainspring.core.registry import Registry
from mainspring.domain.task import LeaseRef, Released
from mainspring.ports.clock import Clock
from mainspring.ports.transactions import CallerTransactions
from mainspring.worker.channel import Channel
from mainspring.worker.collection import collect_rarely
from mainspring.worker.deadlines import Deadlines
from mainspring.worker.execution import Ended as Ending
from mainspring.worker.execution import Execution, Prepared
from mainspring.worker.messages import (
    Committing,
    Ended,
    Overdue,
    Progressed,
    Ready,
    Renew,
    Renewed,
    Start,
    Stop,
    StopReason,
    ToRunner,
)
from mainspring.worker.steps import StepPage, marked
from mainspring.worker.threads import HandlerThreads, ThreadJob

_PR_SET_PDEATHSIG: Final = 1
_GREETING_BYTES: Final = 16
_UNKNOWN_TYPE_SECONDS: Final = 1.0
_LEARN_SECONDS: Final = 0.05
_TOLD_SECONDS: Final = 0.3
"""What a handler that asked for a renewal has, once it was told that its lease is lost."""


def runner_main(
    registry: Registry,
    transactions: CallerTransactions,
    clock: Clock,
    fd: int,
    lockers: Lockers = no_locker,
) -> None:
    """Execute attempts that arrive on the socket `fd` until the agent closes it or dies.

    `lockers` returns what handlers lock with; it is called when the first of them wants to.
    """
    _die_with_parent()
    for sign in (signal.SIGINT, signal.SIGTERM):
        # A signal to the whole group is for the agent, which drains. A function, because a signal
        # that is ignored would stay ignored in the programs that handlers start.
        signal.signal(sign, _leave_to_agent)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What handlers print shall be seen when they print it, also through a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    connection = socket.socket(fileno=fd)
    _, fds, _, _ = socket.recv_fds(connection, _GREETING_BYTES, 1)
    if not fds:
        return
    page = StepPage(fds[0])
    os.close(fds[0])
    collect_rarely()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(_serve(Parts(registry, transactions, clock, lockers), connection, page))


class Parts(NamedTuple):
    """What a runner works with."""

    registry: Registry
    transactions: CallerTransactions
    clock: Clock
    lockers: Lockers


async def _serve(parts: Parts, connection: socket.socket, page: StepPage) -> None:
    runner = Runner(parts, page)
    channel = Channel(ToRunner, runner)
    connection.setblocking(False)  # noqa: FBT003 - the name of the method says what is meant
    await asyncio.get_running_loop().create_connection(lambda: channel, sock=connection)
    runner.connect(channel)
    await runner.gone.wait()
    await runner.close()


class Attempt:
    """One attempt while it runs here; the handler's context reaches the worker through it."""

    __slots__ = ("_runner", "execution", "has_begun", "job", "lease", "number", "task")

    def __init__(self, runner: "Runner", start: Start, prepared: Prepared, ends_at: float) -> None:
        self._runner = runner
        self.number = start.number
        self.lease = start.lease
        self.has_begun = False
        """A task that is cancelled before its first step would end without a word."""

        self.task: asyncio.Task[None] | None = None
        self.job: ThreadJob | None = None
        self.execution = Execution(
            prepared,
            start.lease,
            clock=runner.clock,
            jitter=start.jitter,
            link=self,
            ends_at=ends_at,
        )

    def is_stopping(self) -> bool:
        """Whether the attempt was asked to stop."""
        return self.execution.stopped_by is not None

    def report(self, progress: str) -> None:
        """Pass on a progress value."""
        self._runner.report(self.number, progress)

    async def renew(self) -> bool:
        """Ask the agent for a renewal and wait for its answer."""
        return await asyncio.wrap_future(self._runner.renew(self.number))

    def locker(self) -> Locker:
        """Return what handlers lock with."""
        return self._runner.locker()

    async def complete(self, connection: Any, result: str | None) -> bool:
        """Complete the task in the caller's transaction."""
        self._runner.post(Committing(self.number))
        reference = LeaseRef(self.lease.id, self.lease.fencing_token)
        return await self._runner.transactions.complete(connection, reference, result)


class Runner:
    """Receives what the agent says and runs the attempts."""

    def __init__(self, parts: Parts, page: StepPage) -> None:
        self.transactions = parts.transactions
        self.clock = parts.clock
        self._lockers = parts.lockers
        self._locker: Locker | None = None
        self.gone = asyncio.Event()
        self._prepared = {definition.name: Prepared(definition) for definition in parts.registry}
        self._page = page
        self._attempts: dict[int, Attempt] = {}
        self._deadlines = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._threads = HandlerThreads(page.thread_began, self._thread_ended)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._calls: deque[Any] = deque()
        self._calling = threading.Lock()
        self._progress: dict[int, str] = {}
        self._renewals: dict[int, list[Future[bool]]] = {}
        self._channel: Channel

    def locker(self) -> Locker:
        """Return what handlers lock with; its connections are for the event loop here."""
        if self._locker is None:
            self._locker = self._lockers()
        return self._locker

    async def close(self) -> None:
        """Release connections."""
        if self._locker is not None:
            await self._locker.close()

    def connect(self, channel: Channel) -> None:
        """Take attempts from now on."""
        self._channel = channel
        channel.send(Ready(os.getpid()))

    def received(self, messages: list[ToRunner]) -> None:
        """Called with what the agent said."""
        now = self.clock.monotonic()
        for message in messages:
            if type(message) is Start:
                self._start(message, now)
            elif type(message) is Stop:
                self._stop(message.number, message.reason)
            elif type(message) is Renewed:
                self._answer(message)

    def _answer(self, renewed: Renewed) -> None:
        for answer in self._renewals.pop(renewed.number, ()):
            # Whoever asked may have been stopped meanwhile.
            if answer.set_running_or_notify_cancel():
                answer.set_result(renewed.is_held)

    def disconnected(self) -> None:
        """The agent is gone: so is every lease, and with it the right to go on."""
        if self._attempts:
            with suppress(OSError, ValueError, AttributeError):
                sys.stdout.flush()
            os._exit(0)
        self.gone.set()

    def post(self, message: Any) -> None:
        """Send a message to the agent, from any thread."""
        if threading.get_ident() == self._loop_thread:
            self._channel.send(message)
        else:
            self._call(partial(self._channel.send, message))

    def report(self, number: int, progress: str) -> None:
        """Send the newest progress of an attempt at the end of this turn, from any thread."""
        is_first = number not in self._progress
        self._progress[number] = progress
        if is_first:
            self._call(partial(self._send_progress, number))

    def renew(self, number: int) -> "Future[bool]":
        """Ask for a renewal, from any thread; the future tells whether the lease is held."""
        answer: Future[bool] = Future()
        self._call(partial(self._ask, number, answer))
        return answer

    def _start(self, start: Start, now: float) -> None:
        lease = start.lease
        if now >= start.certain_until:
            # Somebody else may run it by now, or has. If nobody does, it goes back uncharged.
            self._channel.send(Ended(start.number, Released()))
            return
        prepared = self._prepared.get(lease.task_type)
        if prepared is None:
            # The app here is not the one that the agent has; another worker may know the type.
            self._channel.send(Ended(start.number, Released(_UNKNOWN_TYPE_SECONDS)))
            return
        ends_at = now + lease.timeout_seconds
        attempt = Attempt(self, start, prepared, ends_at)
        self._attempts[start.number] = attempt
        self._deadlines.set(start.number, ends_at)
        if self._timer is None or ends_at < self._timer_at:
            self._arm(ends_at, now)
        if prepared.is_async:
            attempt.task = self._loop.create_task(self._attend(attempt))
        else:
            attempt.job = ThreadJob(start.number, attempt.execution)
            self._threads.submit(attempt.job)

    async def _attend(self, attempt: Attempt) -> None:
        cells, number = self._page.cells, attempt.number
        attempt.has_begun = True
        self._page.task_began(number)

        def step(handler: Any) -> Awaitable[Any]:
            return marked(handler, cells, number)

        self._end(number, await attempt.execution.run(step))

    def _end(self, number: int, ending: Ending) -> None:
        del self._attempts[number]
        self._deadlines.forget(number)
        if number in self._progress:
            self._send_progress(number)
        self._channel.send(Ended(number, ending))
        for answer in self._renewals.pop(number, ()):
            answer.cancel()

    def _stop(self, number: int, reason: StopReason) -> None:
        attempt = self._attempts.get(number)
        if attempt is None:
            return
        if attempt.execution.stopped_by is None:
            attempt.execution.stopped_by = reason
        if reason is StopReason.LOST and number in self._renewals:
            # Who has just asked learns it from the answer, and is interrupted only if it goes on.
            self._answer(Renewed(number, is_held=False))
            self._loop.call_later(_TOLD_SECONDS, self._interrupt, attempt)
        else:
            self._interrupt(attempt)

    def _interrupt(self, attempt: Attempt) -> None:
        if attempt.task is not None:
            if attempt.has_begun:
                attempt.task.cancel()
        elif attempt.job is not None:
            self._threads.interrupt(attempt.job)

    def _arm(self, at: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(0.0, at - now), self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        now = self.clock.monotonic()
        for number in self._deadlines.due(now):
            self._channel.send(Overdue(number))
            self._stop(number, StopReason.TIMEOUT)
        earliest = self._deadlines.earliest()
        if earliest is not None:
            self._arm(earliest, now)

    def _send_progress(self, number: int) -> None:
        progress = self._progress.pop(number, None)
        if progress is not None:
            self._channel.send(Progressed(number, progress))

    def _ask(self, number: int, answer: "Future[bool]") -> None:
        if number not in self._attempts:
            answer.cancel()
            return
        self._renewals.setdefault(number, []).append(answer)
        self._channel.send(Renew(number))

    def _thread_ended(self, job: ThreadJob) -> None:
        self._call(partial(self._take_ending, job))

    def _take_ending(self, job: ThreadJob) -> None:
        assert job.ending is not None
        self._end(job.number, job.ending)

    def _call(self, call: Any) -> None:
        """Run something on the event loop soon; many calls from threads cost one wake-up."""
        with self._calling:
            # Two threads that both append before either looks would each leave it to the other.
            self._calls.append(call)
            is_first = len(self._calls) == 1
        if is_first:
            self._loop.call_soon_threadsafe(self._run_calls)

    def _run_calls(self) -> None:
        # The first entry stays until the others are done, so that no second wake-up is asked for
        # while this one still takes what arrives.
        calls = self._calls
        while calls:
            calls[0]()
            calls.popleft()


def _die_with_parent() -> None:
    """On Linux the kernel ends this process with the agent, even while a handler blocks it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave_to_agent(sign: int, frame: FrameType | None) -> None:
    del sign, frame
