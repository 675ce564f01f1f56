"""What must hold, seen from handlers of a real worker on a real PostgreSQL."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from integration.worker.bench import Bench
from integration.worker.sample_app import registry
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.domain.priority import LANES, Level
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, FailureKind
from mainspring.ports.store import TaskFilter

pytestmark = pytest.mark.postgres

RESULT_TRAPS = (
    "nul",
    "half a pair",
    "not a number",
    "infinite",
    "huge",
    "deep",
    "large",
    "no value",
)


@pytest.fixture
async def bench(database: str, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(PostgresStore(PoolOptions(dsn=database)), registry(), tmp_path)
    yield bench
    await bench.close()


async def test_nothing_starts_early(bench: Bench, rng: random.Random) -> None:
    bench.start()
    ids = [
        await bench.submit("when", delay_seconds=rng.choice([0.0, rng.random() * 2]))
        for _ in range(400)
    ]
    for task_id in rng.sample(ids, 100):
        waiting = await bench.get(task_id)
        if waiting.status is TaskStatus.PENDING:
            later = waiting.scheduled_at + (waiting.scheduled_at - waiting.created_at)
            await bench.store.reschedule(task_id, later)
    for task in await bench.ended(*ids):
        assert task.started_at is not None
        assert task.started_at >= task.scheduled_at
        assert task.result is not None
        assert json.loads(bytes(task.result)) >= task.scheduled_at.timestamp()


async def test_what_was_acknowledged_as_cancelled_never_starts(
    bench: Bench, rng: random.Random
) -> None:
    """2,000 tasks that fail twice are cancelled while they wait, run and wait again."""
    acknowledged: dict[UUID, int] = {}

    async def cancel(ids: list[UUID]) -> None:
        while ids:
            part = [ids.pop() for _ in range(min(len(ids), rng.randint(1, 8)))]
            states = await bench.store.cancel(part)
            now = time.monotonic_ns()
            for task_id, state in zip(part, states, strict=True):
                if state is CancelState.CANCELLED:
                    acknowledged[task_id] = now

    tasks = [("third_time_lucky", {"log": bench.log})] * 500
    ids = [task_id for _ in range(4) for task_id in await bench.submit_many(tasks)]
    chosen = rng.sample(ids, len(ids))
    bench.start(processes=2, concurrency=20)
    await bench.noted("began", 50)
    await asyncio.gather(*(cancel(chosen[number::6]) for number in range(6)))
    ended = await bench.ended(*ids, seconds=60)

    starts = [line.split() for line in bench.lines()]
    begun = {UUID(task_id) for _, task_id, _ in starts}
    assert [
        (task_id, int(began) - acknowledged[UUID(task_id)])
        for _, task_id, began in starts
        if int(began) > acknowledged.get(UUID(task_id), int(began))
    ] == []
    statuses = {task.task_id: task.status for task in ended}
    assert {statuses[task_id] for task_id in acknowledged} == {TaskStatus.CANCELLED}
    # It was a race: some were cancelled before they ever ran, and some between two attempts.
    assert acknowledged.keys() - begun
    assert acknowledged.keys() & begun


async def test_a_running_handler_is_told_within_a_second_by_whoever_cancels_and_leaves(
    bench: Bench, database: str
) -> None:
    bench.start()
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    brief = PostgresStore(PoolOptions(dsn=database))
    assert await brief.cancel([task_id]) == [CancelState.CANCELLING]
    await brief.close()
    await bench.noted("stopped", seconds=1)
    (task,) = await bench.ended(task_id)
    assert task.status is TaskStatus.CANCELLED


async def test_levels_start_by_weight_in_every_window_of_a_thousand(bench: Bench) -> None:
    lane_of: dict[str, Level] = {}
    for lane, priority in zip(LANES, (0, 2, 5, 9), strict=True):
        made = await bench.submit_many(
            [("echo", {"value": 1, "log": bench.log})] * 800, priority=priority
        )
        lane_of.update(dict.fromkeys(map(str, made), lane))
    bench.start(processes=1, concurrency=1)
    await bench.noted("run", 1400, seconds=60)
    starts = [lane_of[line.split()[1]] for line in bench.lines()[:1400]]
    for first in range(len(starts) - 1000 + 1):
        window = starts[first : first + 1000]
        for lane, share in zip(LANES, (500, 300, 150, 50), strict=True):
            assert abs(window.count(lane) - share) <= 2


async def test_results_that_cannot_be_held_fail_their_tasks_and_nothing_else(
    bench: Bench,
) -> None:
    agent = bench.start(processes=1)
    ids = await bench.submit_many([("trap", {"kind": kind}) for kind in RESULT_TRAPS])
    for kind, task in zip(RESULT_TRAPS, await bench.ended(*ids), strict=True):
        assert (kind, task.status) == (kind, TaskStatus.FAILED)
        (attempt,) = task.attempts
        assert attempt.kind is FailureKind.INVALID_RESULT
        assert "result" in attempt.error
        assert "\n" not in attempt.error
    raised = await bench.submit("trap", {"kind": "error"}, max_retries=0)
    (task,) = await bench.ended(raised)
    assert task.status is TaskStatus.FAILED
    page = await bench.store.page(TaskFilter(status=TaskStatus.FAILED), 100)
    assert len(page.tasks) == len(RESULT_TRAPS) + 1
    (fine,) = await bench.ended(await bench.submit("echo", {"value": "\U0001f600"}))
    assert fine.status is TaskStatus.COMPLETED
    assert (agent.stats.runners_crashed, agent.stats.abandoned) == (0, 0)
