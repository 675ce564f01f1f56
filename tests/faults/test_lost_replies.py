"""The answers to what a worker and a submitting program do are lost again and again: every task is
stored once, ends once, and runs more than once only when its lease had been lost.

`LOST_REPLIES` sets how many answers are lost.
"""

import asyncio
import os
import random

import pytest

from faults.stage import Stage
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import Proxy, proxy_to
from mainspring import Mainspring, OutcomeUnknown, Settings

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

LOST = int(os.environ.get("LOST_REPLIES", "20"))
QUICK = {"lease_seconds": 1, "heartbeat_seconds": 0.3}
SUBMIT_SECONDS = 10.0


async def test_lost_answers_neither_lose_nor_double_a_task(
    stage: Stage, database: str, postgres_server: PostgresServer, rng: random.Random
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    url = postgres_server.tcp_dsn(name)
    async with proxy_to(url) as (of_worker, worker_url), proxy_to(url) as (of_app, app_url):
        of_worker.chance = of_app.chance = rng
        scheduler = stage.start("scheduler", **QUICK)
        worker = await stage.worker(**QUICK, database_url=worker_url, concurrency=5)
        await scheduler.says("scheduler is ready")
        app = Mainspring(Settings(database_url=app_url))
        losing = asyncio.create_task(lose(of_worker, LOST // 2, rng))
        number = unknown = 0
        while not losing.done() or number < LOST // 2:
            if number < LOST // 2:
                of_app.lose_replies = 1
            unknown += await submit(stage, app, number)
            number += 1
        await app.close()
        await losing
        await stage.settled()

    history = await stage.history()
    leases = sum(row.attempt_count for row in history.rows)
    print(
        f"{LOST} answers lost, {unknown} of them of submissions; {number} submissions, "
        f"{len(history.rows)} tasks, {leases} leases, {len(history.executions)} executions"
    )
    assert history.violations() == []
    assert len(history.rows) == len(stage.accepted) == number
    assert {row.status for row in history.rows} <= {"completed", "failed"}
    assert len(history.executions) <= leases
    assert worker.process.poll() is None


async def lose(proxy: Proxy, count: int, chance: random.Random) -> None:
    """Lose answers, one after the other, at random moments."""
    for _ in range(count):
        proxy.lost.clear()
        proxy.lose_replies = 1
        await proxy.lost.wait()
        await asyncio.sleep(chance.uniform(0.05, 0.4))


async def submit(stage: Stage, app: Mainspring, number: int) -> int:
    """Submit a task under its key until there is an answer; returns how many there were not."""
    unknown = 0
    async with asyncio.timeout(SUBMIT_SECONDS):
        while True:
            try:
                handle = await app.submit(app.new_task("work", {"seconds": 0.02}, key=str(number)))
            except OutcomeUnknown:
                unknown += 1
            else:
                stage.accepted.add(str(handle.id))
                return unknown
