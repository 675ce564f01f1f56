"""Handlers of every kind run, and every way they can end is stored."""

import os
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from integration.worker.bench import Bench, until
from mainspring.domain.priority import LANES, Level
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import FailureKind


def value(raw: msgspec.Raw | None) -> object:
    return None if raw is None else msgspec.json.decode(raw)


async def test_handlers_of_each_kind_complete_with_their_results(bench: Bench) -> None:
    bench.start()
    ids = await bench.submit_many(
        [("echo", {"value": {"n": 1}}), ("noop_thread", {}), ("quick_process", {"value": 1})]
    )
    echo, thread, process = await bench.ended(*ids)
    assert [task.status for task in (echo, thread, process)] == [TaskStatus.COMPLETED] * 3
    assert value(echo.result) == {"n": 1}
    assert thread.result is None
    assert value(process.result) != os.getpid()


async def test_a_solo_process_is_used_again(bench: Bench) -> None:
    bench.start(solo_processes=1)
    ids = await bench.submit_many([("quick_process", {"value": n}) for n in range(5)])
    assert len({value(task.result) for task in await bench.ended(*ids)}) == 1


async def test_parameters_are_checked_before_the_call(bench: Bench) -> None:
    bench.start()
    wrong = [{"count": "1"}, {"count": 1, "more": 1}, {}, {"count": 1, "name": None}]
    ids = await bench.submit_many([("typed", payload) for payload in wrong])
    right = await bench.submit("typed", {"count": 3, "name": "x"})
    for task in await bench.ended(*ids):
        assert task.status is TaskStatus.FAILED
        assert [attempt.kind for attempt in task.attempts] == [FailureKind.INVALID_PAYLOAD]
    (task,) = await bench.ended(right)
    assert value(task.result) == "x 3"


@pytest.mark.parametrize(
    ("kind", "status", "attempts", "told"),
    [
        ("retry", TaskStatus.FAILED, 2, "not yet"),
        ("cancel", TaskStatus.CANCELLED, 1, None),
        ("fail", TaskStatus.FAILED, 1, "never"),
        ("nan", TaskStatus.FAILED, 1, "result.values[1] is nan"),
        ("exit", TaskStatus.FAILED, 2, "SystemExit: 3"),
        ("anything", TaskStatus.FAILED, 2, "RuntimeError: anything"),
    ],
)
async def test_each_outcome_is_stored(
    bench: Bench, kind: str, status: TaskStatus, attempts: int, told: str | None
) -> None:
    bench.start()
    task_id = await bench.submit("outcome", {"kind": kind}, max_retries=1)
    (task,) = await bench.ended(task_id)
    assert (task.status, task.attempt_count) == (status, attempts)
    if told is not None:
        assert told in (task.last_error or "")
    assert (await bench.ended(await bench.submit("echo", {"value": 1})))[0].status == "completed"


async def test_a_snoozed_task_waits_uncharged(bench: Bench) -> None:
    agent = bench.start()
    task_id = await bench.submit("outcome", {"kind": "snooze"})
    await until(lambda: agent.stats.released == 1)
    task = await bench.get(task_id)
    assert (task.status, task.attempt_count) == (TaskStatus.PENDING, 0)


async def test_the_last_progress_is_kept_with_the_finished_task(bench: Bench) -> None:
    bench.start()
    (task,) = await bench.ended(await bench.submit("reports", {"steps": 50}))
    assert value(task.progress) == {"step": 49}


async def test_a_transaction_that_was_not_committed_is_a_failure(
    bench: Bench, tmp_path: Path
) -> None:
    bench.start()
    payload = {"connection": str(tmp_path / "transaction")}
    task_id = await bench.submit("completes_itself", payload, max_retries=0)
    (task,) = await bench.ended(task_id)
    assert task.status is TaskStatus.FAILED
    assert "was not committed" in (task.last_error or "")


async def test_levels_are_served_by_weight_whatever_the_batches(bench: Bench) -> None:
    priorities = dict(zip(LANES, (0, 1, 4, 7), strict=True))
    lane_of: dict[str, Level] = {}
    for lane, priority in priorities.items():
        made = await bench.submit_many(
            [("echo", {"value": 1, "log": bench.log})] * 700, priority=priority
        )
        lane_of.update(dict.fromkeys(map(str, made), lane))
    bench.start(concurrency=1)
    await bench.noted("run", 1200, seconds=60)
    starts = [lane_of[line.split()[1]] for line in bench.lines()[:1200]]
    for first in range(0, 200, 7):
        window = starts[first : first + 1000]
        shares = [window.count(lane) / 10 for lane in LANES]
        assert shares == pytest.approx([50, 30, 15, 5], abs=0.2)


async def test_nothing_is_held_when_nothing_runs(bench: Bench) -> None:
    agent = bench.start()
    ids: list[UUID] = await bench.submit_many([("noop", {"value": 1})] * 2000)
    await bench.ended(*ids)
    await until(lambda: agent.stats.completed == 2000)
    assert len(agent._attempts) == 0
    assert (agent.stats.busy, agent.stats.waiting) == (0, 0)


async def test_a_blocked_runner_is_given_nothing_more(bench: Bench, tmp_path: Path) -> None:
    agent = bench.start(processes=1)
    gate = tmp_path / "gate"
    payload = {"log": bench.log, "seconds": 60.0, "gate": str(gate)}
    blocking = await bench.submit("busy_async", payload)
    await bench.noted("start")
    await until(lambda: next(agent._fleet.runners()).is_blocked)
    ids = await bench.submit_many([("noop", {})] * 20)
    helper = bench.start(processes=1)
    await bench.ended(*ids)
    assert helper.stats.claimed == 20
    assert (await bench.get(blocking)).status is TaskStatus.RUNNING
    gate.touch()
    await bench.ended(blocking)
    again = await bench.submit_many([("noop", {})] * 200)
    await bench.ended(*again)
    await until(lambda: agent.stats.completed > 1)
