"""Two shards with a ready queue each: through the settings, with a real scheduler."""

import asyncio
import dataclasses

import pytest

from fixtures.valkey import ValkeyServer
from integration.shards.conftest import Two
from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.domain.task import Completed, Settlement
from mainspring.ports.store import Claim, ClaimRequest
from mainspring.ports.whole import WholeStore
from mainspring.wiring.coordination import open_coordination
from mainspring.wiring.redis import redis_findings
from mainspring.wiring.scheduler import scheduler_ownership, scheduler_service
from mainspring.wiring.store import open_store

pytestmark = pytest.mark.postgres

CLOCK = SystemClock()
NEVER = 3600.0
REQUEST = ClaimRequest(worker_id="w", limit=10, lease_seconds=60.0, task_types=("t",))


def settings_of(two: Two, server: ValkeyServer, prefix: str) -> Settings:
    return dataclasses.replace(
        two.settings, ready_queue="redis", redis_url=server.url, redis_prefix=prefix
    )


def queued(store: WholeStore) -> list[QueuedStore]:
    parts = store.parts()
    assert len(parts) == 2
    return [part for part in parts if isinstance(part, QueuedStore)]


async def through_the_queues(store: WholeStore) -> Claim:
    for part in queued(store):
        await part.publisher.sent()
        part._look_at = asyncio.get_running_loop().time() + NEVER
    return await store.claim(REQUEST)


async def fed(settings: Settings, count: int) -> None:
    async with asyncio.timeout(10):
        while f"{count} of 2 slices fed" not in (await redis_findings(settings))[0][1]:
            await CLOCK.sleep(0.05)


async def test_each_shard_has_a_ready_queue_that_is_fed(
    two: Two, own_valkey: ValkeyServer, valkey_prefix: str
) -> None:
    settings = settings_of(two, own_valkey, valkey_prefix)
    store, coordination = await open_store(settings), open_coordination(settings)
    scheduler = scheduler_service(
        store, settings, scheduler_ownership(store, coordination, settings)
    )
    running = asyncio.create_task(scheduler.run())
    try:
        await fed(settings, 2)
        # The look that comes first in the life of a claimer.
        await store.claim(REQUEST)
        await store.submit([two.task(number % 2) for number in range(6)])
        for part in queued(store):
            await part.publisher.sent()
            assert (await part.ready_queue.figures()).entries == 3
        claim = await through_the_queues(store)
        assert len(claim.leases) == 6
        ended = [Settlement(one.id, one.fencing_token, Completed(None)) for one in claim.leases]
        assert all(await store.settle(ended))

        await two.reaches[1].lose()
        kept = two.task(0)
        await store.submit([kept])
        claim = await through_the_queues(store)
        assert [lease.id for lease in claim.leases] == [kept.id]
        await two.reaches[1].find()
        async with asyncio.timeout(10):
            while store.missing():
                await CLOCK.sleep(0.02)
        back = two.task(1)
        await store.submit([back])
        own_valkey.ask("FLUSHALL")
        await fed(settings, 2)
        claim = await through_the_queues(store)
        assert [lease.id for lease in claim.leases] == [back.id]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await coordination.close()
        await store.close()
