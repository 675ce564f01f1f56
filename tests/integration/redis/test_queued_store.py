"""The store with a ready queue before it, on real servers and by their clocks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from conformance.scene import LostReplyError, Trap
from fixtures.valkey import ValkeyServer
from integration.redis.bench import Bench, Owner
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import QueuedStore, open_queued_store
from mainspring.adapters.redis import link as links
from mainspring.adapters.redis import ready_queue as queues
from mainspring.adapters.redis.link import RedisLink, RedisOptions
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.system import SystemClock
from mainspring.domain.task import Completed, Lease, NewTask, Settlement
from mainspring.ports.hooks import HookPoint
from mainspring.ports.ready_queue import Entry

pytestmark = pytest.mark.postgres

NEVER = 3600.0


@pytest.fixture
def trap() -> Trap:
    return Trap()


@pytest.fixture
async def opener(
    database: str, own_valkey: ValkeyServer, trap: Trap
) -> AsyncIterator[Callable[..., Any]]:
    opened: list[QueuedStore] = []

    async def open_one() -> QueuedStore:
        link = RedisLink(RedisOptions(url=own_valkey.url), SystemClock())
        queue = RedisReadyQueue(link, "p")
        opened.append(await open_queued_store(PoolOptions(dsn=database), queue, hooks=trap))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def bench(
    opener: Callable[..., Any], own_valkey: ValkeyServer, database: str
) -> AsyncIterator[Bench]:
    sql = await asyncpg.connect(database)
    bench = Bench(await opener(), sql)
    # Nothing is found but through the ready queue, unless a test says otherwise.
    bench.store._look_seconds = NEVER
    await bench.feed()
    await bench.claim()
    bench.store._look_at = asyncio.get_running_loop().time() + NEVER
    yield bench
    await sql.close()


async def test_a_submitted_task_is_claimed_through_the_queue(bench: Bench) -> None:
    ids = await bench.submit(3)
    assert await bench.held() == 3
    leases = await bench.claim(2)
    assert len(leases) == 2
    leases += await bench.claim(2)
    assert {lease.id for lease in leases} == {*ids}
    assert (await bench.store.ready_queue.figures()).entries == 0


async def test_nothing_in_the_queue_makes_a_finished_or_unknown_task_run(bench: Bench) -> None:
    (task_id,) = await bench.submit()
    (lease,) = await bench.claim()
    await bench.store.settle([Settlement(lease.id, lease.fencing_token, Completed(None))])
    now = datetime.now(UTC) - timedelta(seconds=5)
    strange = bench.task()
    await bench.store.ready_queue.put(
        [Entry(each, "default", 5, "mail", now) for each in (task_id, strange.id)]
    )
    assert await bench.held() == 2
    assert await bench.claim() == []
    assert await bench.held() == 0


async def test_a_task_that_the_queue_names_too_early_waits_for_its_time(bench: Bench) -> None:
    (task_id,) = await bench.submit(delay_seconds=20.0)
    await bench.store.ready_queue.put(
        [Entry(task_id, "default", 5, "mail", datetime.now(UTC) - timedelta(seconds=5))]
    )
    assert await bench.claim() == []
    assert await bench.held() == 1
    assert await bench.claim() == []
    await bench.sql.execute("UPDATE mainspring.tasks SET scheduled_at = now()")
    await bench.feed()
    assert len(await bench.claim()) == 1


async def test_a_type_or_queue_that_the_worker_does_not_serve_is_not_believed(
    bench: Bench,
) -> None:
    now = datetime.now(UTC) - timedelta(seconds=5)
    strange = NewTask(id=bench.ids.task_id(), task_type="shell")
    await bench.store.submit([strange])
    await bench.store.publisher.sent()
    await bench.store.ready_queue.put([Entry(strange.id, "default", 5, "mail", now)])
    assert await bench.claim() == []


async def test_a_queue_that_was_paused_behind_its_back_starts_nothing(bench: Bench) -> None:
    (task_id,) = await bench.submit()
    await bench.store.publisher.sent()
    await bench.sql.execute("UPDATE mainspring.queues SET paused = true")
    assert await bench.claim() == []
    assert await bench.held() == 1
    await bench.store.resume("default")
    assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_what_nobody_told_the_queue_is_found_by_looking_and_by_feeding(
    bench: Bench,
    own_valkey: ValkeyServer,
) -> None:
    (task_id,) = await bench.submit()
    await bench.store.publisher.sent()
    own_valkey.ask("DEL", "{p:0}:r:5 default mail", "{p:0}:heads")
    assert await bench.claim() == []
    assert await bench.feed() == 1
    assert [lease.id for lease in await bench.claim()] == [task_id]
    (other,) = await bench.submit()
    await bench.store.publisher.sent()
    own_valkey.ask("DEL", "{p:0}:r:5 default mail", "{p:0}:heads")
    bench.store._look_at = 0.0
    assert [lease.id for lease in await bench.claim()] == [other]


async def test_what_was_taken_and_never_leased_comes_back(
    bench: Bench, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task_id,) = await bench.submit()
    trap.breaking.add(HookPoint.LEASE_AFTER_POP)
    with pytest.raises(LostReplyError):
        await bench.claim()
    trap.breaking.clear()
    assert await bench.claim() == []
    monkeypatch.setattr(queues, "UNCONFIRMED_SECONDS", 0.0)
    await bench.feed()
    assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_concurrent_claims_never_share_a_task(
    bench: Bench, opener: Callable[..., Any]
) -> None:
    ids = await bench.submit(200)
    await bench.store.publisher.sent()
    others = [Bench(await opener(), bench.sql) for _ in range(3)]
    claims = await asyncio.gather(*(each.claim(30) for each in (bench, *others) for _ in range(3)))
    claimed = [lease.id for leases in claims for lease in leases]
    assert sorted(claimed) == sorted(ids)


async def test_an_emptied_queue_is_full_again_at_once(
    bench: Bench, own_valkey: ValkeyServer
) -> None:
    for _ in range(10):
        await bench.submit(1000)
    await bench.store.publisher.sent()
    own_valkey.ask("FLUSHALL")
    # While it is not fed the store is asked.
    assert len(await bench.claim(100)) == 100
    started = asyncio.get_running_loop().time()
    feeder = bench.feeder()
    await feeder.run_once()
    await feeder.run_once()
    leases: list[Lease] = []
    while found := await bench.claim(500):
        leases += found
    took = asyncio.get_running_loop().time() - started
    assert len({lease.id for lease in leases}) == 9900
    print(f"9,900 tasks claimed {took:.2f} s after the queue was emptied")
    assert took < 20


async def test_an_owner_of_before_changes_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.feeder(Owner(2)).run_once()
    (task_id,) = await bench.submit(delay_seconds=20.0)
    assert await bench.held() == 1
    await bench.sql.execute("UPDATE mainspring.tasks SET scheduled_at = now()")
    await bench.feed()
    assert "is fed by somebody else: slice 0" in caplog.text
    assert await bench.claim() == []
    await bench.feeder(Owner(2)).run_once()
    assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_without_the_queue_everything_goes_on(
    bench: Bench, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_AWAY_SECONDS", (0.05, 0.05))
    loop = asyncio.get_running_loop()
    own_valkey.pause()
    started = loop.time()
    (first,) = await bench.submit()
    assert loop.time() - started < 0.5
    assert [lease.id for lease in await bench.claim()] == [first]
    own_valkey.resume()
    own_valkey.kill()
    (second,) = await bench.submit()
    assert [lease.id for lease in await bench.claim()] == [second]
    own_valkey.start()
    await asyncio.sleep(0.06)
    await bench.feed()
    (third,) = await bench.submit()
    assert await bench.held() == 1
    assert [lease.id for lease in await bench.claim()] == [third]
