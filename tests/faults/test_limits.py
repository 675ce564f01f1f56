"""Kill -9 of workers under a limit: never more runs than it says, and nothing stays behind."""

import random

import psutil
import pytest

from faults.history import Row
from faults.stage import Stage
from mainspring import Mainspring
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import open_store
from mainspring.domain.limits import Limit

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

TASKS = 40
LIMIT = 3
KILLS = 3
TASK_SECONDS = 0.1


async def test_a_limit_outlives_the_workers_that_are_killed_under_it(
    stage: Stage, app: Mainspring, rng: random.Random
) -> None:
    store = await open_store(PoolOptions(dsn=stage.database_url))
    await store.set_limits("default", whole=Limit(concurrency=LIMIT))
    await store.close()
    await stage.scheduler()
    workers = [await stage.worker() for _ in range(2)]
    await stage.submit(app, TASKS, "work", seconds=TASK_SECONDS)
    for kill in range(1, KILLS + 1):
        await stage.happens("start", kill * TASKS // (KILLS + 1))
        victim = workers.pop(rng.randrange(len(workers)))
        family = victim.family()
        killed_at = stage.kill(psutil.Process(victim.pid))
        stage.deaths.update((member.pid, killed_at) for member in family)
        workers.append(await stage.worker())
    await stage.settled()

    history = await stage.history()
    assert {row.status for row in history.rows} == {"completed"}
    assert len(history.rows) == TASKS
    assert most_at_once(history.rows) <= LIMIT
    assert history.violations() == []
    assert await stage.ask("SELECT count(*) FROM mainspring.tasks") == 0
    assert await stage.ask("SELECT count(*) FROM mainspring.lines") == 0


def most_at_once(rows: list[Row]) -> int:
    """How many leases were held at one moment, as the store knows their starts and ends."""
    changes: list[tuple[float, int]] = []
    for row in rows:
        spans = [(failed.started, failed.ended) for failed in row.failed]
        if row.started is not None and row.completed is not None:
            spans.append((row.started, row.completed))
        changes += [change for start, end in spans for change in ((start, 1), (end, -1))]
    most = count = 0
    for _, change in sorted(changes):
        count += change
        most = max(most, count)
    return most
