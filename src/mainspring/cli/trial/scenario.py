"""The scenario of the demo: each check does something real and says what it saw."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from mainspring.app import Mainspring
from mainspring.app_tasks import TaskHandle, TaskState
from mainspring.cli.trial.handlers import CLOCK, double, flaky, greet, nap, nap_once, stamp
from mainspring.cli.trial.result import Result
from mainspring.cli.trial.schedules import clock_change, cron_schedule, interval_schedule
from mainspring.cli.trial.stack import Program, start_program
from mainspring.config import Settings
from mainspring.domain.errors import MainspringError
from mainspring.domain.priority import LANES, WEIGHTS, Level, lane_of, level_of
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState

PATIENCE_SECONDS: Final = 30.0
LATE_SECONDS_MAX: Final = 1.0
CANCEL_SECONDS_MAX: Final = 2.0
WEIGHED_QUEUE: Final = "demo-weights"
DOOMED_QUEUE: Final = "demo-doomed"
_PRIORITIES: Final = (0, 2, 5, 8, 10)
_TASKS_EACH: Final = 120
_FIRST: Final = 100
_TOLERANCE: Final = 3
_QUICK: Final = Backoff(BackoffKind.FIXED, base_seconds=0.2)
_POLL_SECONDS: Final = 0.05


Check = Callable[["Scenario"], Awaitable[Result]]


class Scenario:
    """What the checks work with."""

    def __init__(self, app: Mainspring, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def results(self) -> AsyncIterator[Result]:
        """Run all checks side by side and yield their results in the order of the table."""
        # This one fills the queues on purpose, so it has the workers for itself.
        first = [await _guarded("levels by weight", levels_by_weight, self)]
        running = [asyncio.create_task(_guarded(*named, self)) for named in CHECKS]
        try:
            for check in running[:2]:
                yield await check
            yield first[0]
            for check in running[2:]:
                yield await check
        finally:
            for one in running:
                one.cancel()

    async def until(self, task: TaskHandle, status: TaskStatus) -> TaskState:
        """Wait until a task has a status."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                state = await task.refresh()
                if state.status is status:
                    return state
                await CLOCK.sleep(_POLL_SECONDS)


async def _guarded(name: str, check: Check, scenario: Scenario) -> Result:
    try:
        return await check(scenario)
    except (MainspringError, TimeoutError) as error:
        text = str(error) or "it took too long"
        return Result(name, "an answer in time", f"{type(error).__name__}: {text}", ok=False)


async def now(scenario: Scenario) -> Result:
    """A task runs at once."""
    del scenario
    task = await greet.submit(name="world")
    state = await task.wait(PATIENCE_SECONDS)
    return Result(
        "a task now",
        "completed: hello world",
        f"{state.status}: {state.result}",
        ok=(state.status, state.result) == (TaskStatus.COMPLETED, "hello world"),
    )


async def in_the_future(scenario: Scenario) -> Result:
    """A task runs at its time: not before, and soon after."""
    del scenario
    task = await stamp.options(delay=3).submit()
    state = await task.wait(PATIENCE_SECONDS)
    late = LATE_SECONDS_MAX + 1
    if state.started_at is not None:
        late = (state.started_at - state.scheduled_at).total_seconds()
    return Result(
        "a task in 3 s",
        f"starts 0 to {LATE_SECONDS_MAX:g} s after its time",
        f"{state.status}, {late * 1000:+.0f} ms",
        ok=state.status is TaskStatus.COMPLETED and 0 <= late <= LATE_SECONDS_MAX,
    )


async def levels_by_weight(scenario: Scenario) -> Result:
    """With all levels backlogged, starts follow the weights."""
    app = scenario.app
    await app.pause_queue(WEIGHED_QUEUE)
    calls = {
        priority: stamp.options(priority=priority, queue=WEIGHED_QUEUE) for priority in _PRIORITIES
    }
    built = [call.build() for call in calls.values() for _ in range(_TASKS_EACH)]
    tasks = await app.submit_many(built)
    await app.resume_queue(WEIGHED_QUEUE)
    states = await asyncio.gather(*(task.wait(PATIENCE_SECONDS) for task in tasks))
    states.sort(key=lambda state: state.result or 0)
    lanes = Counter(lane_of(level_of(state.priority)) for state in states[:_FIRST])
    kinds = {level_of(state.priority) for state in states}
    is_fair = all(abs(lanes[lane] - WEIGHTS[lane]) <= _TOLERANCE for lane in LANES)
    return Result(
        f"five levels, first {_FIRST} starts",
        "/".join(str(WEIGHTS[lane]) for lane in LANES),
        "/".join(str(lanes[lane]) for lane in LANES),
        ok=is_fair and kinds == set(Level),
    )


async def twice_then_through(scenario: Scenario) -> Result:
    """A task that fails is tried again."""
    del scenario
    task = await flaky.options(backoff=_QUICK).submit(failures=2)
    state = await task.wait(PATIENCE_SECONDS)
    return Result(
        "fails twice, then succeeds",
        "completed by attempt 3",
        f"{state.status} by attempt {state.attempt_count}",
        ok=(state.status, state.attempt_count) == (TaskStatus.COMPLETED, 3),
    )


async def dead_letter_and_replay(scenario: Scenario) -> Result:
    """A task that keeps failing is kept, and runs again with a corrected payload."""
    task = await double.options(max_retries=1, backoff=_QUICK).submit(amount="twelve")
    failed = await task.wait(PATIENCE_SECONDS)
    await scenario.app.replay(task.id, payload={"amount": "12"})
    state = await task.wait(PATIENCE_SECONDS)
    return Result(
        "always fails: dead letter, replayed corrected",
        "failed after 2 attempts, then completed: 24",
        f"{failed.status} after {failed.attempt_count} attempts, "
        f"then {state.status}: {state.result}",
        ok=(failed.status, failed.attempt_count, state.status, state.result)
        == (TaskStatus.FAILED, 2, TaskStatus.COMPLETED, 24),
    )


async def cancelled_while_waiting(scenario: Scenario) -> Result:
    """A task cancelled before its time never starts."""
    del scenario
    task = await greet.options(delay=3600).submit(name="nobody")
    answer = await task.cancel("demo")
    state = await task.refresh()
    return Result(
        "cancelled while waiting",
        "cancelled, never started",
        f"{answer}, {'never started' if state.started_at is None else 'started'}",
        ok=answer is CancelState.CANCELLED
        and state.status is TaskStatus.CANCELLED
        and state.started_at is None,
    )


async def cancelled_while_running(scenario: Scenario) -> Result:
    """The handler of a running task is told."""
    task = await nap.submit(seconds=60)
    await scenario.until(task, TaskStatus.RUNNING)
    asked = CLOCK.monotonic()
    answer = await task.cancel("demo")
    state = await task.wait(PATIENCE_SECONDS)
    took = CLOCK.monotonic() - asked
    return Result(
        "cancelled while running",
        f"cancelling, then cancelled within {CANCEL_SECONDS_MAX:g} s",
        f"{answer}, then {state.status} after {took:.1f} s",
        ok=answer is CancelState.CANCELLING
        and state.status is TaskStatus.CANCELLED
        and took <= CANCEL_SECONDS_MAX,
    )


async def killed_worker(scenario: Scenario) -> Result:
    """The task of a worker that dies runs again in another one."""
    task = await nap_once.options(queue=DOOMED_QUEUE).submit(seconds=60)
    doomed = await _worker(scenario.settings)
    try:
        first = await scenario.until(task, TaskStatus.RUNNING)
    finally:
        await doomed.kill()
    heir = await _worker(scenario.settings)
    try:
        state = await task.wait(PATIENCE_SECONDS)
    finally:
        await heir.stop()
    is_other = state.worker_id != first.worker_id
    return Result(
        "worker killed (-9) in mid-task",
        "runs again elsewhere: completed by attempt 2",
        f"{'runs again elsewhere' if is_other else 'same worker'}: {state.status} by attempt "
        f"{state.attempt_count}",
        ok=is_other and (state.status, state.attempt_count) == (TaskStatus.COMPLETED, 2),
    )


async def _worker(settings: Settings) -> Program:
    arguments = ("worker", "--queues", DOOMED_QUEUE, "--processes", "1")
    return await start_program(settings, *arguments)


CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("a task now", now),
    ("a task in 3 s", in_the_future),
    ("a schedule every 2 s", lambda scenario: interval_schedule(scenario.app)),
    ("a cron schedule", lambda scenario: cron_schedule(scenario.app)),
    ("a preview across a clock change", lambda scenario: clock_change(scenario.app)),
    ("fails twice, then succeeds", twice_then_through),
    ("always fails: dead letter, replayed corrected", dead_letter_and_replay),
    ("cancelled while waiting", cancelled_while_waiting),
    ("cancelled while running", cancelled_while_running),
    ("worker killed (-9) in mid-task", killed_worker),
)
