"""The whole loop on every supported version of PostgreSQL, and behind a pooler."""

import asyncio
from uuid import UUID

import asyncpg
import pytest

from integration.postgres.steps import ask, claim, completed, new_task, submit
from mainspring.adapters.postgres.migrate import check
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.safety import Severity, inspect
from mainspring.adapters.postgres.store import open_store
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    Cancelled,
    CancelState,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    LeaseRef,
    Released,
    Retried,
    Settlement,
)
from mainspring.ports.store import (
    DeadLetterFilter,
    Hint,
    Store,
    TaskFilter,
)
from mainspring.ports.workers import WorkerState

pytestmark = pytest.mark.postgres
BOOM = Failure(kind=FailureKind.ERROR, message="ValueError: no")


async def test_the_whole_loop(any_database: str) -> None:
    store = await open_store(PoolOptions(dsn=any_database))
    try:
        await go_round(store)
        assert {finding.severity for finding in await inspect(any_database)} == {Severity.OK}
    finally:
        await store.close()


async def test_the_whole_loop_behind_pgbouncer(pgbouncer: str) -> None:
    store = await open_store(PoolOptions(dsn=pgbouncer, pooled=True))
    try:
        await go_round(store)
    finally:
        await store.close()


async def test_many_at_once_behind_pgbouncer(pgbouncer: str) -> None:
    """More connections than the pooler has servers, so every statement meets another one."""
    stores = [await open_store(PoolOptions(dsn=pgbouncer, pooled=True)) for _ in range(3)]
    done: list[UUID] = []

    async def work(store: Store) -> None:
        while leases := await claim(store, 7):
            assert all(await store.settle([completed(lease) for lease in leases]))
            done.extend(lease.id for lease in leases)

    async def look(store: Store) -> None:
        for _ in range(20):
            await store.page(TaskFilter(status=TaskStatus.COMPLETED), 5)

    try:
        batches = await asyncio.gather(*(submit(stores[n % 3], 20) for n in range(12)))
        await asyncio.gather(
            *(work(stores[n % 3]) for n in range(12)), *(look(store) for store in stores)
        )
        assert sorted(done) == sorted(task_id for batch in batches for task_id in batch)
    finally:
        for store in stores:
            await store.close()


async def test_hints_arrive_behind_pgbouncer_over_the_direct_url(
    pgbouncer: str, database: str
) -> None:
    store = await open_store(PoolOptions(dsn=pgbouncer, pooled=True, direct_dsn=database))
    wakeups = store.wakeups()
    hints: frozenset[Hint] = frozenset()
    try:
        for _ in range(20):
            store.announce()
            hints = await wakeups.wait(0.5)
            if hints:
                break
        assert Hint.READY in hints
    finally:
        await wakeups.close()
        await store.close()


async def test_waiting_without_a_direct_url_lasts_its_time(pgbouncer: str) -> None:
    store = await open_store(PoolOptions(dsn=pgbouncer, pooled=True))
    wakeups = store.wakeups()
    try:
        store.announce()
        assert await wakeups.wait(0.05) == frozenset()
    finally:
        await wakeups.close()
        await store.close()


async def test_the_schema_is_checked_through_pgbouncer(pgbouncer: str) -> None:
    await check(pgbouncer, session=False)
    assert {finding.severity for finding in await inspect(pgbouncer, session=False)} == {
        Severity.OK
    }


async def test_settings_that_lose_tasks_are_found(database: str, sql: asyncpg.Connection) -> None:
    name = await sql.fetchval("SELECT current_database()")
    await sql.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    found = {finding.subject: finding for finding in await inspect(database)}
    assert found["synchronous_commit"].severity is Severity.WARNING
    assert "acknowledged" in found["synchronous_commit"].message
    assert found["writable"].severity is Severity.ERROR


async def go_round(store: Store) -> None:
    """Take tasks through every statement once."""
    await submit(store, 9, priority=3, key=None)
    keyed = new_task(key="k", fingerprint="f", delay_seconds=60.0)
    assert [answer.id for answer in await store.submit([keyed, keyed])] == [keyed.id] * 2
    found = await ask(store, 20)
    assert len(found.leases) == 9
    assert found.next_due_seconds is not None
    assert 0 < found.next_due_seconds <= 60
    refs = [LeaseRef(lease.id, lease.fencing_token) for lease in found.leases]
    assert all(answer.held for answer in await store.heartbeat(refs, 60.0))
    assert await store.progress(refs[0], '{"done": 1}')
    assert await store.cancel([refs[6].id, keyed.id, UUID(int=7)], "enough") == [
        CancelState.CANCELLING,
        CancelState.CANCELLED,
        CancelState.NOT_FOUND,
    ]
    assert [answer.cancel_requested for answer in await store.watch(refs)].count(True) == 1
    ways: list[Ending] = [
        Completed('{"ok": true}'),
        Retried(BOOM, 30.0),
        Failed(BOOM),
        Failed(BOOM),
        Released(),
        Cancelled("not needed"),
        Retried(BOOM, 0.0),
    ]
    endings = [
        Settlement(lease.id, lease.fencing_token, ending)
        for lease, ending in zip(found.leases[:7], ways, strict=True)
    ]
    assert await store.settle(endings) == [True] * 7
    assert await store.settle(endings) == [False] * 7
    ids = [lease.id for lease in found.leases]
    assert await store.statuses(ids[:7]) == dict(
        zip(
            ids[:7],
            map(
                TaskStatus,
                ("completed", "retrying", "failed", "failed", "pending", "cancelled", "cancelled"),
            ),
            strict=True,
        )
    )
    assert await store.heartbeat(refs[7:], 0.0)
    assert {task.id for task in await store.rescue(10)} == set(ids[7:])
    assert await store.reschedule(ids[1], None) is TaskStatus.RETRYING
    assert await store.dead_letter_count() == 2
    assert await store.replay(DeadLetterFilter(ids=(ids[2],)), 5, '{"n": 2}') == [ids[2]]
    assert await store.discard(DeadLetterFilter(task_type="mail"), 5, "old") == [ids[3]]
    (state,) = await store.queues()
    assert (state.queue, state.ready, state.running) == ("default", 5, 0)
    await store.pause("default")
    assert await claim(store, 20) == []
    await store.resume("default")
    leases = await claim(store, 20)
    assert all(await store.settle([completed(lease) for lease in leases]))
    for status, count in (("completed", 6), ("cancelled", 3), ("discarded", 1)):
        page = await store.page(TaskFilter(status=TaskStatus(status), task_type="mail"), 20)
        assert len(page.tasks) == count, status
    page = await store.page(TaskFilter(), 4)
    assert len(page.tasks) == 4
    assert len((await store.page(TaskFilter(), 20, page.cursor)).tasks) == 6
    worker = WorkerState(worker_id="w", hostname="h", pid=1, queues=None, lanes=None, slots=4)
    await store.beat(worker)
    assert [known.worker_id for known in await store.workers()] == ["w"]
    assert await store.forget_workers(3600.0) == 0
    await store.leave("w")
    assert await store.prepare_history(1) == []
    assert await store.drop_history(30.0) == []
    assert await store.forget_keys(30.0, 10) == 0
