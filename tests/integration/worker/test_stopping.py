"""Time limits and cancellation reach every kind of handler, also one that does not listen."""

import asyncio
import os
from pathlib import Path

import pytest

from integration.worker.bench import Bench, until
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, FailureKind

HANDLERS = ["asleep", "busy_thread", "polite_thread", "in_process"]


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("handler", ["asleep", "busy_thread"])
async def test_a_handler_is_told_when_its_time_is_over(bench: Bench, handler: str) -> None:
    bench.start()
    task_id = await bench.submit(handler, {"log": bench.log}, timeout_seconds=0.3, max_retries=0)
    (task,) = await bench.ended(task_id, seconds=5)
    assert bench.lines()[1:] == ["stopped"]
    assert task.status is TaskStatus.FAILED
    assert [attempt.kind for attempt in task.attempts] == [FailureKind.TIMEOUT]
    assert "timeout of 0.3 s" in (task.last_error or "")


@pytest.mark.parametrize("guilty", ["stubborn", "busy_async", "block_thread"])
async def test_a_handler_that_stays_costs_its_process_and_nobody_else_an_attempt(
    bench: Bench, guilty: str
) -> None:
    agent = bench.start(grace_seconds=0.3)
    neighbour = await bench.submit("asleep", {"log": bench.log, "seconds": 3.0})
    await bench.noted("start 1")
    payload = {"log": bench.log, "seconds": 60.0}
    stays = await bench.submit(guilty, payload, timeout_seconds=0.3, max_retries=0)
    (task,) = await bench.ended(stays)
    assert [attempt.kind for attempt in task.attempts] == [FailureKind.TIMEOUT]
    (task,) = await bench.ended(neighbour)
    assert (task.status, task.attempt_count) == (TaskStatus.COMPLETED, 1)
    assert agent.stats.runners_killed == 1
    assert agent.stats.runners_crashed == 0


async def test_the_one_that_blocks_is_judged_and_not_those_who_wait_for_it(bench: Bench) -> None:
    agent = bench.start(grace_seconds=0.2)
    payload = {"log": bench.log, "seconds": 3.0}
    waits = await bench.submit("asleep", {"log": bench.log}, timeout_seconds=0.4, max_retries=0)
    await bench.noted("start 1")
    blocks = await bench.submit("busy_async", payload, timeout_seconds=30)
    (late, done) = await bench.ended(waits, blocks)
    assert done.status is TaskStatus.COMPLETED
    assert [attempt.kind for attempt in late.attempts] == [FailureKind.TIMEOUT]
    assert agent.stats.runners_killed == 0


async def test_a_process_that_stays_is_ended_with_everything_it_started(bench: Bench) -> None:
    bench.start(grace_seconds=0.3)
    task_id = await bench.submit(
        "in_process", {"log": bench.log}, timeout_seconds=0.3, max_retries=0
    )
    (task,) = await bench.ended(task_id)
    assert [attempt.kind for attempt in task.attempts] == [FailureKind.TIMEOUT]
    child = int(bench.lines()[1].partition("=")[2])
    await until(lambda: not exists(child), 3)
    assert not any(map(exists, bench.pids()))


@pytest.mark.parametrize("handler", HANDLERS)
async def test_a_cancellation_reaches_the_handler_within_a_second(
    bench: Bench, handler: str
) -> None:
    bench.start()
    task_id = await bench.submit(handler, {"log": bench.log})
    await bench.noted("child" if handler == "in_process" else "start")
    assert await bench.store.cancel([task_id], "not wanted") == [CancelState.CANCELLING]
    if handler == "in_process":
        child = int(bench.lines()[1].partition("=")[2])
        await until(lambda: not exists(child), 2)
    else:
        await bench.noted("stopped", seconds=1)
    (task,) = await bench.ended(task_id, seconds=3)
    assert (task.status, task.attempt_count) == (TaskStatus.CANCELLED, 1)


async def test_a_cancellation_is_noticed_without_a_hint(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = bench.start()
    monkeypatch.setattr(agent._attempts.keeper, "hint_cancel", lambda: None)
    task_id = await bench.submit("asleep", {"log": bench.log})
    await bench.noted("start")
    await asyncio.sleep(0.5)
    await bench.store.cancel([task_id])
    await bench.noted("stopped", seconds=1.5)
    assert (await bench.ended(task_id))[0].status is TaskStatus.CANCELLED


async def test_a_handler_that_finishes_although_it_was_cancelled_has_finished(
    bench: Bench,
) -> None:
    bench.start()
    task_id = await bench.submit("stubborn", {"log": bench.log, "seconds": 0.7})
    await bench.noted("start")
    await bench.store.cancel([task_id])
    (task,) = await bench.ended(task_id)
    assert task.status is TaskStatus.COMPLETED
