"""The server is gone, deaf or read-only: an answer within five seconds, and normal afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from integration.postgres.proxy import Proxy, proxy_to
from integration.postgres.steps import claim, completed, new_task, submit
from mainspring.adapters.postgres.checkup import server_facts, way_to
from mainspring.adapters.postgres.migrate import plan
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.safety import inspect
from mainspring.adapters.postgres.shards import read_label
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.domain.errors import (
    MigrationNeeded,
    OutcomeUnknown,
    StoreReadOnly,
    StoreUnavailable,
    Unavailable,
)
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import LeaseRef, Submission
from mainspring.ports.store import Hint, TaskFilter

pytestmark = [pytest.mark.postgres, pytest.mark.fault]
ANSWER_SECONDS = 5.0


@pytest.fixture
async def proxied(
    database: str, postgres_server: PostgresServer
) -> AsyncIterator[tuple[Proxy, PostgresStore]]:
    name = database.split("@/")[1].partition("?")[0]
    async with proxy_to(postgres_server.tcp_dsn(name)) as (proxy, dsn):
        store = await open_store(PoolOptions(dsn=dsn))
        yield proxy, store
        await store.close()


async def until_it_works(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a call while the store says to try again, for as long as it may take to recover."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(0)


async def read_only(call: Callable[[], Awaitable[Any]]) -> StoreReadOnly:
    """Repeat a call until it meets the read-only server and not a connection that was cut."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            try:
                await call()
            except StoreReadOnly as error:
                return error
            except Unavailable:
                continue
            pytest.fail("the server accepted a write")


async def refused_in_time(call: Awaitable[Any]) -> Unavailable:
    begun = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await call
    assert time.monotonic() - begun < ANSWER_SECONDS
    return caught.value


async def test_every_connection_is_cut(store: PostgresStore, sql: asyncpg.Connection) -> None:
    await submit(store, 5)
    wakeups = store.wakeups()
    await heard(store, wakeups)
    (lease,) = await claim(store)
    await sql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert len(await until_it_works(lambda: claim(store, 4))) in range(5)
    assert await until_it_works(lambda: store.settle([completed(lease)])) in ([True], [False])
    assert (await store.statuses([lease.id]))[lease.id] is TaskStatus.COMPLETED
    await heard(store, wakeups)
    await wakeups.close()


async def heard(store: PostgresStore, wakeups: Any) -> None:
    for _ in range(50):
        store.announce()
        if Hint.READY in await wakeups.wait(0.2):
            return
    pytest.fail("no hint arrived")


async def test_a_read_only_server_says_so_and_is_used_again_afterwards(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await submit(store, 1)
    name = await sql.fetchval("SELECT current_database()")
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await sql.execute(cut)
    for call in (
        lambda: submit(store),
        lambda: claim(store),
        lambda: store.rescue(1),
        lambda: store.pause("a"),
    ):
        assert "primary" in (await read_only(call)).message
    assert len((await store.page(TaskFilter(), 10)).tasks) == 1
    await sql.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await sql.execute(cut)
    assert len(await until_it_works(lambda: claim(store))) == 1


async def test_a_deaf_server_is_given_up_in_time(proxied: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = proxied
    await submit(store, 2)
    (lease,) = await claim(store)
    await store.watch([LeaseRef(lease.id, lease.fencing_token)])
    proxy.swallow_requests = True
    failures = await asyncio.gather(
        refused_in_time(submit(store)),
        refused_in_time(claim(store)),
        refused_in_time(store.page(TaskFilter(), 5)),
        refused_in_time(store.heartbeat([LeaseRef(lease.id, lease.fencing_token)], 60.0)),
    )
    assert isinstance(failures[2], StoreUnavailable)
    # New connections are not answered either.
    await refused_in_time(store.queues())
    proxy.swallow_requests = False
    assert len(await until_it_works(lambda: claim(store))) == 1


async def test_connections_that_died_without_a_word_cost_one_call(
    proxied: tuple[Proxy, PostgresStore],
) -> None:
    proxy, store = proxied
    await asyncio.gather(*(store.queues() for _ in range(4)))
    proxy.forget()
    await refused_in_time(store.queues())
    await store.queues()


async def test_a_server_that_falls_silent_once_it_is_connected_is_given_up_in_time(
    proxied: tuple[Proxy, PostgresStore],
) -> None:
    proxy, store = proxied
    options = store._connections.options
    wakeups = store.wakeups()
    proxy.swallow_statements = True
    hints, *_ = await asyncio.gather(
        wakeups.wait(30.0),
        refused_in_time(open_store(options)),
        refused_in_time(inspect(options.dsn)),
        refused_in_time(server_facts(options.dsn)),
        refused_in_time(way_to(options.dsn)),
        refused_in_time(plan(options.dsn)),
        refused_in_time(read_label(options.dsn)),
    )
    # Whoever is not heard any more is told to look.
    assert hints == frozenset(Hint)
    await wakeups.close()


async def test_a_write_whose_reply_is_swallowed_is_of_unknown_outcome_and_repeatable(
    proxied: tuple[Proxy, PostgresStore],
) -> None:
    proxy, store = proxied
    task = new_task(key="k", fingerprint="f")
    await submit(store)
    proxy.swallow_replies = True
    assert isinstance(await refused_in_time(store.submit([task])), OutcomeUnknown)
    proxy.swallow_replies = False
    answers = await until_it_works(lambda: store.submit([task]))
    assert answers == [Submission(task.id, is_new=False)]


async def test_who_is_cancelled_does_not_wait_for_a_deaf_server(
    proxied: tuple[Proxy, PostgresStore],
) -> None:
    proxy, store = proxied
    await submit(store)
    proxy.swallow_requests = True
    proxy.swallowed.clear()
    asking = asyncio.create_task(claim(store))
    await proxy.swallowed.wait()
    begun = time.monotonic()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert time.monotonic() - begun < 1.0


async def test_heartbeats_get_through_when_all_other_connections_are_taken(
    database: str, sql: asyncpg.Connection
) -> None:
    store = await open_store(PoolOptions(dsn=database, size=2))
    try:
        await submit(store, 2)
        leases = await claim(store, 2)
        async with sql.transaction():
            await sql.execute("SELECT FROM mainspring.tasks WHERE id = $1 FOR UPDATE", leases[0].id)
            blocked = [asyncio.create_task(store.cancel([leases[0].id])) for _ in range(4)]
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while await sql.fetchval(waiting) < 2:
                pass
            ref = LeaseRef(leases[1].id, leases[1].fencing_token)
            async with asyncio.timeout(2):
                (renewal,) = await store.heartbeat([ref], 60.0)
            assert renewal.held
        await asyncio.gather(*blocked)
    finally:
        await store.close()


async def test_a_statement_that_a_lock_holds_up_ends_in_time(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    (task_id,) = await submit(store)
    async with sql.transaction():
        await sql.execute("LOCK TABLE mainspring.tasks")
        failure = await refused_in_time(store.cancel([task_id]))
        assert isinstance(failure, StoreUnavailable)
    assert len(await claim(store)) == 1


async def test_there_is_no_server() -> None:
    store = PostgresStore(PoolOptions(dsn="postgresql://nobody@127.0.0.1:1/nothing"))
    assert isinstance(await refused_in_time(submit(store)), StoreUnavailable)
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await submit(store)


async def test_a_database_without_schema_is_refused_at_opening_and_at_use(
    empty_database: str,
) -> None:
    with pytest.raises(MigrationNeeded, match="mainspring migrate"):
        await open_store(PoolOptions(dsn=empty_database))
    store = PostgresStore(PoolOptions(dsn=empty_database))
    with pytest.raises(MigrationNeeded, match="mainspring migrate"):
        await submit(store)
    await store.close()
