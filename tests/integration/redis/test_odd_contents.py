"""Redis holds what nobody of us wrote, drops single keys, is emptied between two steps, knows a
later epoch than the database, or answers late. Each is one more way to be slower for a moment.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from fixtures.valkey import ValkeyServer
from integration.postgres.proxy import Proxy
from integration.redis.bench import Bench, Owner
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.redis import link as links
from mainspring.adapters.redis import ready_queue as queues
from mainspring.adapters.redis.link import RedisLink, RedisOptions, script_of
from mainspring.adapters.redis.locks import RedisLocks
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.ports.locks import Grant, Refusal
from mainspring.ports.ready_queue import Entry, Feeding, ReadyQueueUnavailable, Taken, TakeRequest
from mainspring.wiring.redis import redis_link

pytestmark = pytest.mark.postgres

NEVER = 3600.0
RANGE = "{p:0}:r:5 default mail"


@pytest.fixture
async def bench(
    database: str, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    """Nothing is found but through the ready queue, unless a test says otherwise."""
    # A busy machine is none of the oddities that are tried here.
    monkeypatch.setattr(links, "CALL_SECONDS", 10.0)
    monkeypatch.setattr(links, "_DEADLINE_SECONDS", 20.0)
    queue = RedisReadyQueue(RedisLink(RedisOptions(url=own_valkey.url), SystemClock()), "p")
    store = QueuedStore(PoolOptions(dsn=database), queue, look_seconds=NEVER)
    bench = Bench(store, await asyncpg.connect(database))
    await bench.feed()
    await bench.claim()
    yield bench
    await store.close()
    await bench.sql.close()


@pytest.fixture
def ask(own_valkey: ValkeyServer) -> Callable[..., str]:
    return own_valkey.ask


def feeding(epoch: int = 1) -> Feeding:
    until = datetime.now(UTC) + timedelta(seconds=30)
    return Feeding(slice=0, epoch=epoch, until=until, paused=frozenset())


@pytest.mark.parametrize("members", [("1.5", "what"), ("1", "two words"), ("inf", "x" * 36)])
async def test_what_nobody_of_us_wrote_is_dropped(
    bench: Bench, ask: Callable[..., str], members: tuple[str, str]
) -> None:
    (task_id,) = await bench.submit()
    assert await bench.held() == 1
    ask("ZADD", RANGE, *members)
    for strange in ("what", "5 default", "\x00 default mail"):
        ask("ZADD", "{p:0}:heads", "1", strange)
        ask("ZADD", "{p:0}:r:" + strange, "1", "x")
    assert [lease.id for lease in await bench.claim()] == [task_id]
    (other,) = await bench.submit()
    await bench.feed()
    await bench.feed()
    assert await bench.held() == 1
    assert ask("ZCARD", "{p:0}:heads") == ":1\r\n"
    assert [lease.id for lease in await bench.claim()] == [other]


async def test_single_keys_that_are_dropped_cost_no_task(
    bench: Bench, ask: Callable[..., str]
) -> None:
    """As a server does that may evict keys."""
    await bench.submit(2)
    assert len(await bench.claim(1)) == 1
    for key in ("heads", "r:5 default mail", "limits", "until", "paused", "taken", "times"):
        (task_id,) = await bench.submit()
        await bench.store.publisher.sent()
        ask("DEL", "{p:0}:" + key)
        await bench.feed()
        assert task_id in {lease.id for lease in await bench.claim()}, key
    for key in ("epoch", "fed"):
        began = await bench.store.ready_queue.begin(feeding())
        assert began is not None
        ask("DEL", "{p:0}:" + key)
        await began.fill([], {})
        (task_id,) = await bench.submit()
        await bench.feed()
        assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_a_full_server_that_evicts_costs_no_task(
    bench: Bench, ask: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def feed() -> None:
        with suppress(ReadyQueueUnavailable):
            await bench.feed()

    monkeypatch.setattr(links, "_AWAY_SECONDS", (0.0, 0.0))
    used = int(ask("INFO", "memory").split("used_memory:")[1].split()[0])
    ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    ask("CONFIG", "SET", "maxmemory", str(used + 100_000))
    ids: list[object] = []
    claimed: list[object] = []
    bench.store._look_seconds = 0.2
    for _ in range(6):
        ids += await bench.submit(500)
        await feed()
        claimed += [lease.id for lease in await bench.claim(300)]
    assert "evicted_keys:0" not in ask("INFO", "stats")
    async with asyncio.timeout(20):
        while len(claimed) < len(ids):
            await feed()
            claimed += [lease.id for lease in await bench.claim(500)]
    assert sorted(map(str, claimed)) == sorted(map(str, ids))


async def test_a_queue_that_is_emptied_in_a_round_costs_the_round_alone(
    bench: Bench, ask: Callable[..., str]
) -> None:
    (task_id,) = await bench.submit()
    began = await bench.store.ready_queue.begin(feeding())
    assert began is not None
    ask("FLUSHALL")
    assert await began.fill([], {}) is None
    assert await bench.feed() == 1
    assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_an_epoch_that_the_database_forgot_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that was restored issues lower ones than Redis has seen."""
    monkeypatch.setattr(queues, "EPOCH_SECONDS", 0.2)
    await bench.feeder(Owner(900)).run_once()
    (task_id,) = await bench.submit()
    await bench.store.publisher.sent()
    await bench.feed()
    clock = SystemClock()
    async with asyncio.timeout(10):
        while await bench.store.ready_queue.begin(feeding()) is None:
            await clock.sleep(0.02)
    await bench.feed()
    assert [lease.id for lease in await bench.claim()] == [task_id]


async def test_the_end_of_what_is_known_is_remembered_while_it_is_fed(bench: Bench) -> None:
    await bench.submit(10)
    await bench.store.publisher.sent()
    window = await bench.store.window(datetime.now(UTC), 4)
    assert len(window.limits) == 1
    began = await bench.store.ready_queue.begin(feeding())
    assert began is not None
    await began.fill(window.entries, window.limits)
    assert len((await taken(bench)).found) == 4
    assert await bench.store.ready_queue.begin(feeding()) is not None
    assert not (await taken(bench)).is_complete


async def test_what_does_not_fit_is_not_hidden_by_what_is_due_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MOST", 5)
    await bench.submit(5, delay_seconds=20.0)
    assert await bench.held() == 5
    await bench.submit()
    await bench.store.publisher.sent()
    found = await taken(bench)
    assert (found.found, found.is_complete) == ([], False)


async def taken(bench: Bench) -> Taken:
    token = str(bench.ids.task_id())
    now = datetime.now(UTC)
    request = TakeRequest(token=token, now=now, limit=100, task_types=("mail",))
    return await bench.store.ready_queue.take(request)


async def test_a_late_answer_is_not_given_to_the_next_who_asks(
    own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_AWAY_SECONDS", (0.0, 0.0))
    echo = script_of("prelude")._replace(source="return ARGV[1]", digest="0" * 40)
    proxy = Proxy("127.0.0.1", own_valkey.port)
    door = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = door.sockets[0].getsockname()[1]
    link = RedisLink(RedisOptions(url=f"redis://127.0.0.1:{port}"), SystemClock())
    try:
        assert await link.run(echo, "k", "first") == b"first"
        proxy.hold("replies")
        late = [asyncio.create_task(link.run(echo, "k", f"late {n}")) for n in range(30)]
        given_up = asyncio.create_task(link.ask("k", [("ECHO", "given up")]))
        await asyncio.wait(late, timeout=0.1)
        given_up.cancel()
        ended = await asyncio.gather(*late, given_up, return_exceptions=True)
        assert {type(each) for each in ended[:-1]} == {ReadyQueueUnavailable}
        proxy.release()
        for number in range(40):
            assert await link.run(echo, "k", f"next {number}") == f"next {number}".encode()
            assert await link.ask("k", [("ECHO", "x"), ("ECHO", str(number))]) == [
                b"x",
                str(number).encode(),
            ]
    finally:
        await link.close()
        door.close()
        await proxy.close()


async def test_authorities_for_a_server_without_tls_are_no_error(
    own_valkey: ValkeyServer,
) -> None:
    link = redis_link(Settings(redis_url=own_valkey.url, redis_ca_file="/nowhere"))
    (facts,) = await link.servers()
    await link.close()
    assert facts.policy == "noeviction"


async def test_a_lock_ends_in_time_though_the_clock_of_the_server_went_back(
    own_valkey: ValkeyServer,
) -> None:
    locks = RedisLocks(RedisLink(RedisOptions(url=own_valkey.url), SystemClock()), "p")
    first = await locks.acquire("door", "one", 0.3)
    assert isinstance(first, Grant)
    # As a clock that went back would find it.
    ends = str(int(datetime.now(UTC).timestamp() + NEVER) * 1_000_000)
    own_valkey.ask("HSET", "p:lock:door", "until", ends, "given", f"{ends} 300000")
    clock = SystemClock()
    async with asyncio.timeout(10):
        while isinstance(second := await locks.acquire("door", "two", 30.0), Refusal):
            assert second.seconds <= 0.3
            await clock.sleep(second.seconds)
    await locks.close()
    assert second.number > first.number


async def test_entries_that_a_round_corrects_late_do_no_harm(bench: Bench) -> None:
    """A script that was sent before the server stood still is carried out after the next round."""
    (task_id,) = await bench.submit()
    await bench.store.publisher.sent()
    old = await bench.store.ready_queue.begin(feeding())
    assert old is not None
    past = Entry(task_id, "default", 5, "mail", datetime.now(UTC) - timedelta(days=1))
    strange = Entry(bench.ids.task_id(), "default", 5, "mail", datetime.now(UTC))
    await bench.feed()
    await old.fill([past, strange], {})
    assert [lease.id for lease in await bench.claim()] == [task_id]
    await bench.feed()
    assert await bench.held() == 0
