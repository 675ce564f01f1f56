"""SIGSTOP of a worker past its lease: what it does when it goes on changes nothing."""

import signal
import time

import psutil
import pytest

from faults.stage import Stage, eventually, stopped
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

WHAT_A_STALE_WORKER_COULD_CHANGE = """
    SELECT row(status, fencing_token, attempt_count, worker_id, progress::text, attempts)::text
    FROM mainspring.tasks WHERE lease_expires_at < clock_timestamp() + '30 s'
"""
"""With the lease itself: one of 60 s would be that of the worker which has lost it."""


@pytest.mark.parametrize(
    ("behind", "event"),
    [("return", "done"), ("fail", "stopped"), ("progress", "told"), ("heartbeat", "asked")],
)
async def test_the_store_refuses_a_worker_that_believes_in_its_lost_lease(
    stage: Stage, app: Mainspring, behind: str, event: str
) -> None:
    """The agent alone is stopped, for less than its lease: it goes on in good faith. Meanwhile the
    lease ended by the clock of the server, and another worker runs the task.
    """
    await stage.scheduler()
    sleeper = await stage.worker(lease_seconds=60, heartbeat_seconds=20)
    second_gate = stage.directory / "second"
    (task_id,) = await stage.submit(
        *(app, 1, "hold"), gate=str(stage.gate), behind=behind, second_gate=str(second_gate)
    )
    await stage.happens("start", 1)
    agent = psutil.Process(sleeper.pid)
    sleeper.send(signal.SIGSTOP)
    await eventually(lambda: all(stopped([agent])), "the stop of the agent")
    await stage.ask("UPDATE mainspring.tasks SET lease_expires_at = clock_timestamp()")
    await stage.worker(lease_seconds=30, heartbeat_seconds=15)
    await stage.happens("start", 2)
    before = await stage.ask(WHAT_A_STALE_WORKER_COULD_CHANGE)

    stage.open_gate()
    await stage.happens(event, 1)
    sleeper.send(signal.SIGCONT)
    if behind in {"return", "fail"}:
        await sleeper.says("code=stale_lease")
    else:
        await stage.happens("stopped", 1)
        await sleeper.says("a lease was lost")
    assert before is not None
    assert await stage.ask(WHAT_A_STALE_WORKER_COULD_CHANGE) == before
    second_gate.touch()
    await stage.settled()

    task = await app.get(task_id)
    assert (task.status, task.result, task.attempt_count) == ("completed", "attempt 2", 2)
    assert task.progress is None
    assert len(stage.events("stale")) == (behind == "heartbeat")
    assert sleeper.process.poll() is None
    history = await stage.history()
    assert [execution.attempt for execution in history.of(str(task_id))] == [1, 2]
    assert history.violations() == []


async def test_a_handler_whose_lease_was_lost_is_stopped_and_its_worker_goes_on(
    stage: Stage, app: Mainspring
) -> None:
    """The whole worker is stopped, as by a virtual machine that is moved."""
    await stage.scheduler()
    sleeper = await stage.worker()
    ids = await stage.submit(app, 4, "hold", gate=str(stage.gate))
    await stage.happens("start", 4)
    family = sleeper.family()
    for member in family:
        member.suspend()
    await eventually(lambda: all(stopped(family)), "the stop of all of it")

    helper = await stage.worker()
    await stage.settled()
    before = [await app.get(task_id) for task_id in ids]
    resumed_at = time.time()
    for member in reversed(family):
        member.resume()
    told = await stage.happens("stopped", 4)
    print(f"stopped {max(record['at'] for record in told) - resumed_at:.2f} s after it went on")
    helper.send(signal.SIGTERM)
    assert await helper.ended() == 0

    assert [await app.get(task_id) for task_id in ids] == before
    history = await stage.history()
    assert {execution.outcome for execution in history.executions} == {"done", "stopped"}
    assert history.violations() == []
    # It is as good as new.
    await stage.submit(app, 3, "work")
    await stage.settled()
    assert (await stage.history()).violations() == []
