"""The child's side, message by message, in this process."""

import asyncio
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.core.locking import no_locker
from mainspring.core.registry import Registry
from mainspring.domain.errors import StaleLease
from mainspring.domain.task import Cancelled, Completed, FailureKind, Released, Retried
from mainspring.worker.messages import (
    Ended,
    Overdue,
    Progressed,
    Ready,
    Renew,
    Renewed,
    Start,
    Stop,
    StopReason,
)
from mainspring.worker.runner import Parts, Runner
from mainspring.worker.steps import NOBODY, StepPage, page_file
from manual_clock import ManualClock
from unit.worker.making import make_lease


class Mailbox:
    """Takes the place of the channel to the agent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self._arrived = asyncio.Event()

    def send(self, message: Any) -> None:
        self.sent.append(message)
        self._arrived.set()

    async def next(self, kind: type) -> Any:
        """Wait for a message of a kind, and forget it and what came before it."""
        async with asyncio.timeout(5):
            while True:
                for index, message in enumerate(self.sent):
                    if isinstance(message, kind):
                        del self.sent[: index + 1]
                        return message
                self._arrived.clear()
                await self._arrived.wait()


@pytest.fixture
def page() -> Iterator[StepPage]:
    with page_file() as shared:
        page = StepPage(shared.fileno())
    yield page
    page.close()


def connected(page: StepPage, *handlers: Any) -> tuple[Runner, Mailbox]:
    registry = Registry()
    for handler in handlers:
        registry.add(define(handler.__name__, handler))
    transactions: Any = None
    runner = Runner(Parts(registry, transactions, ManualClock(), no_locker), page)
    mailbox = Mailbox()
    runner.connect(mailbox)  # type: ignore[arg-type]
    assert isinstance(mailbox.sent.pop(), Ready)
    return runner, mailbox


CERTAIN_UNTIL = 1_000_000.0


async def work() -> str:
    return "done"


async def waits() -> None:
    await asyncio.get_running_loop().create_future()


def start(number: int, task_type: str, **changes: Any) -> Start:
    return Start(number, 0.5, make_lease(task_type=task_type, **changes), CERTAIN_UNTIL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_a_page_needs_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # A page on a disk that is full ends whoever looks at it.
    monkeypatch.setattr(tempfile, "tempdir", "/does/not/exist")
    with page_file() as shared:
        page = StepPage(shared.fileno())
    page.task_began(1)
    assert page.has_task_begun(1)
    page.close()


async def test_an_attempt_runs_and_its_ending_is_told(page: StepPage) -> None:
    runner, mailbox = connected(page, work)
    runner.received([start(1, "work"), start(2, "work")])
    assert await mailbox.next(Ended) == Ended(1, Completed('"done"'))
    assert await mailbox.next(Ended) == Ended(2, Completed('"done"'))
    assert page.current() == NOBODY
    assert (page.has_task_begun(2), page.has_task_begun(3)) == (True, False)


@pytest.mark.parametrize("handler", [waits, work])
async def test_an_attempt_that_is_stopped_before_its_first_step_still_ends(
    page: StepPage, handler: Any
) -> None:
    runner, mailbox = connected(page, handler)
    runner.received([start(1, handler.__name__), Stop(1, StopReason.CANCEL)])
    assert await mailbox.next(Ended) == Ended(1, Cancelled())


async def test_a_running_attempt_is_stopped(page: StepPage) -> None:
    runner, mailbox = connected(page, waits)
    runner.received([start(1, "waits"), Stop(99, StopReason.CANCEL)])
    await asyncio.sleep(0)
    runner.received([Stop(1, StopReason.DRAIN)])
    assert await mailbox.next(Ended) == Ended(1, Released())


async def test_a_task_type_that_is_not_known_here_goes_back(page: StepPage) -> None:
    runner, mailbox = connected(page, work)
    runner.received([start(1, "other")])
    assert await mailbox.next(Ended) == Ended(1, Released(1.0))


async def test_what_comes_when_its_lease_may_be_over_goes_back_unbegun(page: StepPage) -> None:
    runner, mailbox = connected(page, work)
    now = runner.clock.monotonic()
    late, soon = (
        Start(number, 0.5, make_lease(task_type="work"), now + seconds)
        for number, seconds in ((1, 0.0), (2, 0.01))
    )
    runner.received([late, soon])
    assert await mailbox.next(Ended) == Ended(1, Released())
    assert await mailbox.next(Ended) == Ended(2, Completed('"done"'))


async def test_the_time_limit_is_told_and_enforced(page: StepPage) -> None:
    runner, mailbox = connected(page, waits)
    clock = runner.clock
    assert isinstance(clock, ManualClock)
    runner.received([start(1, "waits", timeout_seconds=50.0), start(2, "waits")])
    await asyncio.sleep(0)
    clock.advance(31)
    runner._time_is_up()
    assert await mailbox.next(Overdue) == Overdue(2)
    ended = await mailbox.next(Ended)
    assert ended.number == 2
    assert isinstance(ended.ending, Retried)
    assert ended.ending.failure.kind is FailureKind.TIMEOUT
    clock.advance(31)
    runner._time_is_up()
    assert await mailbox.next(Overdue) == Overdue(1)


async def test_many_progress_values_of_one_turn_are_one_message(page: StepPage) -> None:
    async def reports(ctx: TaskContext) -> None:
        for step in range(1000):
            ctx.progress(step)
        await asyncio.sleep(0.01)
        ctx.progress("last")

    runner, mailbox = connected(page, reports)
    runner.received([start(1, "reports")])
    await mailbox.next(Progressed)
    ended = await mailbox.next(Progressed)
    assert ended == Progressed(1, '"last"')
    assert await mailbox.next(Ended) == Ended(1, Completed())


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_handler_asks_for_a_renewal(page: StepPage, is_held: bool) -> None:
    async def careful(ctx: TaskContext) -> str:
        try:
            await ctx.heartbeat()
        except StaleLease:
            return "lost"
        return "held"

    runner, mailbox = connected(page, careful)
    runner.received([start(1, "careful")])
    assert await mailbox.next(Renew) == Renew(1)
    runner.received([Renewed(1, is_held), Renewed(1, is_held)])
    assert await mailbox.next(Ended) == Ended(1, Completed('"held"' if is_held else '"lost"'))


async def test_a_handler_that_asks_learns_that_its_lease_is_lost(page: StepPage) -> None:
    learned: list[StaleLease] = []

    async def careful(ctx: TaskContext) -> None:
        try:
            await ctx.heartbeat()
        except StaleLease as error:
            learned.append(error)
            raise

    runner, mailbox = connected(page, careful)
    runner.received([start(1, "careful")])
    await mailbox.next(Renew)
    runner.received([Stop(1, StopReason.LOST), Renewed(1, False)])
    assert await mailbox.next(Ended) == Ended(1, Released())
    assert len(learned) == 1


async def test_threads_grow_with_the_work_and_are_used_again(page: StepPage) -> None:
    def plain() -> int:
        return 1

    runner, mailbox = connected(page, plain)
    for number in range(1, 50):
        runner.received([start(number, "plain")])
        assert await mailbox.next(Ended) == Ended(number, Completed("1"))
    assert runner._threads._threads <= 2
    assert page.has_thread_begun(49)


class TogetherQueue(deque[Any]):
    """Holds a thread that has appended until another one has, too, or cannot."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._together = threading.Barrier(threads)

    def append(self, call: Any, /) -> None:
        super().append(call)
        with suppress(threading.BrokenBarrierError):
            self._together.wait(0.2)


async def test_threads_that_end_at_once_are_all_heard(page: StepPage) -> None:
    runner, _ = connected(page, work)
    runner._calls = TogetherQueue(2)
    heard: asyncio.Queue[int] = asyncio.Queue()
    threads = [
        threading.Thread(target=runner._call, args=(partial(heard.put_nowait, number),))
        for number in (1, 2)
    ]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(5):
        assert {await heard.get(), await heard.get()} == {1, 2}
    for thread in threads:
        thread.join()
