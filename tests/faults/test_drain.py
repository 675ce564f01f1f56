"""SIGTERM under load: a worker stops in its own time, and nothing runs twice."""

import signal

import pytest

from faults.stage import Stage
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

TASKS = 400


async def test_a_worker_that_drains_finishes_what_it_has_and_nothing_runs_twice(
    stage: Stage, app: Mainspring
) -> None:
    leaving = await stage.worker(concurrency=8)
    await stage.submit(app, TASKS, "work", seconds=0.03)
    await stage.happens("done", TASKS // 10)
    staying = await stage.worker(concurrency=8)
    leaving.send(signal.SIGTERM)
    assert await leaving.ended() == 0, leaving.said
    await stage.settled(60.0)
    staying.send(signal.SIGTERM)
    assert await staying.ended() == 0, staying.said

    history = await stage.history()
    assert len(history.executions) == TASKS
    assert {row.attempt_count for row in history.rows} == {1}
    assert await stage.ask("SELECT count(*) FROM mainspring.workers") == 0
    assert history.violations() == []


async def test_what_does_not_finish_in_time_is_handed_back_at_once_and_is_not_charged(
    stage: Stage, app: Mainspring
) -> None:
    leaving = await stage.worker(drain_seconds=0.5, lease_seconds=600, heartbeat_seconds=60)
    await stage.submit(app, 5, "linger", gate=str(stage.gate))
    await stage.happens("start", 5)
    leaving.send(signal.SIGTERM)
    assert await leaving.ended() == 0, leaving.said
    await stage.worker()
    stage.open_gate()
    await stage.settled()

    history = await stage.history()
    assert [row.attempt_count for row in history.rows] == [1] * 5
    outcomes = sorted(str(execution.outcome) for execution in history.executions)
    assert outcomes == ["done"] * 5 + ["stopped"] * 5
    assert history.violations() == []
