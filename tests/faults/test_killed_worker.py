"""Kill -9 of a worker in mid-task: every task runs again, once its lease is over."""

import psutil
import pytest

from faults.stage import LEASE_SECONDS, Stage, eventually, has_ended
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

TASKS = 6
RECOVERY_SECONDS = 2.0


async def test_tasks_of_a_killed_worker_run_again_when_their_leases_are_over(
    stage: Stage, app: Mainspring
) -> None:
    await stage.scheduler()
    victim = await stage.worker()
    await stage.submit(app, TASKS, "hold", gate=str(stage.gate))
    await stage.happens("start", TASKS)
    await stage.worker()
    family = victim.family()
    # A heartbeat of the victim may lie between two looks, so the leases are read after its death.
    killed_at = stage.kill(psutil.Process(victim.pid))
    first_expiry = await stage.ask("SELECT min(lease_expires_at) FROM mainspring.tasks")
    await eventually(lambda: all(map(has_ended, family)), "the end of its runners")
    stage.deaths.update((member.pid, killed_at) for member in family)

    again = [record for record in await stage.happens("start", 2 * TASKS) if record["attempt"] > 1]
    await stage.settled()

    assert [record["attempt"] for record in again] == [2] * TASKS
    history = await stage.history()
    taken_back = [failed.ended for row in history.rows for failed in row.failed]
    started = [row.started for row in history.rows if row.started is not None]
    print(
        f"taken back {max(taken_back) - killed_at:.2f} s after the kill of a {LEASE_SECONDS:g} s "
        f"lease, executed after {min(record['at'] for record in again) - killed_at:.2f} s"
    )
    assert min(taken_back + started) >= first_expiry.timestamp()
    assert max(taken_back) - killed_at <= LEASE_SECONDS + RECOVERY_SECONDS
    assert [row.attempt_count for row in history.rows] == [2] * TASKS
    assert {failed.kind for row in history.rows for failed in row.failed} == {"lease_expired"}
    assert history.violations() == []


async def test_tasks_of_a_killed_runner_run_again_at_once(stage: Stage, app: Mainspring) -> None:
    worker = await stage.worker()
    await stage.submit(app, TASKS, "hold", gate=str(stage.gate))
    await stage.happens("start", TASKS)
    (runner,) = worker.runners()

    killed_at = stage.kill(runner)
    again = [record for record in await stage.happens("start", 2 * TASKS) if record["attempt"] > 1]
    await stage.settled()

    assert [record["attempt"] for record in again] == [2] * TASKS
    print(f"recovered {max(record['at'] for record in again) - killed_at:.2f} s after the kill")
    assert worker.process.poll() is None
    history = await stage.history()
    assert {failed.kind for row in history.rows for failed in row.failed} == {"crashed"}
    assert {len(row.failed) for row in history.rows} == {1}
    assert history.violations() == []
