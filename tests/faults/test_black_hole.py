"""Redis swallows everything for a while: work goes on without it, and 10,000 tasks that wait are
there for workers soon after it answers again.

`BLACK_HOLE_SECONDS` sets for how long.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from faults.stage import Stage
from fixtures.valkey import ValkeyServer
from integration.postgres.proxy import Proxy
from mainspring import Mainspring
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import QueuedStore, open_queued_store
from mainspring.adapters.redis.link import RedisLink, RedisOptions
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.system import SystemClock
from mainspring.domain.task import Completed, Settlement
from mainspring.ports.store import ClaimRequest

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

HOLE_SECONDS = float(os.environ.get("BLACK_HOLE_SECONDS", "4"))
TASKS = 10_000
BATCH = 500
CLAIMABLE_SECONDS = 20.0
ANSWER_SECONDS = 5.0


@pytest.fixture
async def hole(own_valkey: ValkeyServer) -> AsyncIterator[tuple[Proxy, str]]:
    """A way to Redis that can swallow everything, and its URL."""
    proxy = Proxy("127.0.0.1", own_valkey.port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    yield proxy, f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    server.close()
    await proxy.close()


async def claim(store: QueuedStore) -> tuple[list[Settlement], float]:
    """Claim as a worker does; returns how to end what was claimed, and how long it took."""
    sent = time.monotonic()
    request = ClaimRequest(worker_id="w", limit=BATCH, lease_seconds=60.0, task_types=("work",))
    leases = (await store.claim(request)).leases
    took = time.monotonic() - sent
    return [Settlement(one.id, one.fencing_token, Completed(None)) for one in leases], took


@pytest.mark.timeout(120 + HOLE_SECONDS)
async def test_what_waits_is_there_soon_after_redis_answers_again(
    stage: Stage, app: Mainspring, hole: tuple[Proxy, str]
) -> None:
    proxy, url = hole
    scheduler = stage.start("scheduler", ready_queue="redis", redis_url=url, redis_prefix="p")
    await scheduler.says("the ready queue is fed")
    queue = RedisReadyQueue(RedisLink(RedisOptions(url=url), SystemClock()), "p")
    store = await open_queued_store(PoolOptions(dsn=stage.database_url), queue)
    await claim(store)

    proxy.swallow_requests = proxy.swallow_replies = True
    fell_at = time.monotonic()
    during, slowest = 0, 0.0
    while time.monotonic() - fell_at < HOLE_SECONDS:
        # Submissions and work go on, past Redis.
        submitted = {str(one) for one in await stage.submit(app, BATCH, "work")}
        endings: list[Settlement] = []
        while len(endings) < BATCH:
            found, took = await claim(store)
            endings += found
            slowest = max(slowest, took)
        assert {str(one.id) for one in endings} == submitted
        assert all(await store.settle(endings))
        during += BATCH
        await asyncio.sleep(0.5)
    for _ in range(TASKS // 1000):
        await stage.submit(app, 1000, "work")

    proxy.swallow_requests = proxy.swallow_replies = False
    back_at = time.monotonic()
    claimed: list[UUID] = []
    while len(claimed) < TASKS:
        found, _ = await claim(store)
        claimed += [one.id for one in found]
        assert time.monotonic() - back_at < CLAIMABLE_SECONDS, f"{len(claimed)} were claimed"
    all_at = time.monotonic() - back_at
    figures = await queue.figures()
    print(
        f"Redis was away for {back_at - fell_at:.1f} s: {during} tasks were submitted and run, no"
    )
    print(f"claim took longer than {slowest:.2f} s; then {TASKS} were claimed in {all_at:.2f} s")
    assert len(set(claimed)) == TASKS
    assert slowest < ANSWER_SECONDS
    while not figures.fed:
        assert time.monotonic() - back_at < CLAIMABLE_SECONDS
        await asyncio.sleep(0.05)
        figures = await queue.figures()
    print(f"fed again after {time.monotonic() - back_at:.2f} s")
    await store.close()
