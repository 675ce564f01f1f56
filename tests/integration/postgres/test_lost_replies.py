"""The server has committed and its answer is lost: asking again finds what was done, once."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from integration.postgres.proxy import Proxy, proxy_to
from integration.postgres.steps import claim, completed, new_task, submit
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.domain.errors import OutcomeUnknown, StoreUnavailable
from mainspring.domain.task import (
    Failed,
    Failure,
    FailureKind,
    Lease,
    LeaseRef,
    Released,
    Rescued,
    Retried,
    Settlement,
    Submission,
)

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

TIMES = 6
"""Each kind of call loses so many answers."""

COUNTS = """
    SELECT (SELECT count(*) FROM mainspring.tasks WHERE status <> 'running'),
        (SELECT count(*) FROM mainspring.tasks WHERE status = 'running'),
        (SELECT count(*) FROM mainspring.dead_letters),
        (SELECT count(*) FROM mainspring.task_history)
"""


class Line:
    """A store behind a proxy that loses answers, and a look past it."""

    def __init__(self, proxy: Proxy, store: PostgresStore, direct: PostgresStore, sql: Any) -> None:
        self.proxy = proxy
        self.store = store
        self.direct = direct
        self.sql = sql

    async def lose(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Make a call whose answer is lost, as whoever calls is told."""
        self.proxy.lose_replies = 1
        with pytest.raises(OutcomeUnknown):
            await call()
        assert self.proxy.lose_replies == 0

    async def counts(self) -> tuple[int, int, int, int]:
        """How many tasks wait, run, are dead letters, and have ended."""
        record = await self.sql.fetchrow(COUNTS)
        return tuple(record)

    async def row(self, lease: Lease) -> asyncpg.Record:
        record: asyncpg.Record = await self.sql.fetchrow(
            "SELECT status, attempt_count, fencing_token, worker_id, lease_expires_at, "
            "progress::text FROM mainspring.tasks WHERE id = $1",
            lease.id,
        )
        return record


@pytest.fixture
async def line(
    database: str, postgres_server: PostgresServer, rng: random.Random
) -> AsyncIterator[Line]:
    name = database.split("@/")[1].partition("?")[0]
    sql = await asyncpg.connect(database)
    direct = await open_store(PoolOptions(dsn=database))
    async with proxy_to(postgres_server.tcp_dsn(name)) as (proxy, dsn):
        proxy.chance = rng
        store = await open_store(PoolOptions(dsn=dsn))
        yield Line(proxy, store, direct, sql)
        await store.close()
    await direct.close()
    await sql.close()


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("is_keyed", [False, True])
async def test_a_submission_is_stored_once(line: Line, count: int, is_keyed: bool) -> None:
    # The first task of a queue takes two statements.
    await submit(line.direct, 1)
    for number in range(1, TIMES + 1):
        tasks = [
            new_task(**({"key": f"{number}-{one}", "fingerprint": "f"} if is_keyed else {}))
            for one in range(count)
        ]
        await line.lose(partial(line.store.submit, tasks, first=not is_keyed))
        assert await line.counts() == (1 + number * count, 0, 0, 0)
        answers = await line.store.submit(tasks)
        assert answers == [Submission(task.id, is_new=False) for task in tasks]
        assert await line.counts() == (1 + number * count, 0, 0, 0)


async def test_a_claim_is_lost_for_no_longer_than_its_lease(line: Line) -> None:
    """Nobody knows of these leases, so they end by themselves; each task is then leased once."""
    for number in range(TIMES):
        await submit(line.direct, 5)
        await line.lose(lambda: claim(line.store, 5, lease_seconds=0.3))
        assert await line.counts() == (0, 5, 0, number * 5)
        # Asking again at once takes nothing a second time, and a heartbeat of others nothing over.
        assert await claim(line.store, 5) == []
        rescued: list[Rescued] = []
        leases: list[Lease] = []
        async with asyncio.timeout(20):
            while len(rescued) < 5:
                rescued += await line.direct.rescue(10)
                await asyncio.sleep(0.02)
            while len(leases) < 5:
                leases += await claim(line.store, 10, lease_seconds=60.0)
        assert {lease.id for lease in leases} == {one.id for one in rescued}
        assert {lease.attempt for lease in leases} == {2}
        assert await line.counts() == (0, 5, 0, number * 5)
        assert await line.store.settle([completed(lease) for lease in leases]) == [True] * 5
    assert await line.counts() == (0, 0, 0, TIMES * 5)


FAILURE = Failure(kind=FailureKind.ERROR, message="no")


@pytest.mark.parametrize(
    ("ending", "counts"),
    [
        (None, (0, 0, 0, 1)),
        (Failed(FAILURE), (0, 0, 1, 0)),
        (Retried(FAILURE, 60.0), (1, 0, 0, 0)),
        (Released(), (1, 0, 0, 0)),
    ],
    ids=["completed", "failed", "retried", "released"],
)
async def test_an_ending_is_stored_once(
    line: Line, ending: Any, counts: tuple[int, int, int, int]
) -> None:
    for number in range(1, TIMES + 1):
        await submit(line.direct, 3, queue=f"q{number}")
        leases = await claim(line.direct, 3, queues=(f"q{number}",))
        endings = [
            completed(lease)
            if ending is None
            else Settlement(lease.id, lease.fencing_token, ending)
            for lease in leases
        ]
        await line.lose(partial(line.store.settle, endings))
        expected = tuple(3 * number * one for one in counts)
        assert await line.counts() == expected
        # Repeated it is refused, as the lease is over: once more it would be charged twice.
        assert await line.store.settle(endings) == [False] * 3
        assert await line.counts() == expected


async def test_a_renewal_and_progress_are_stored_and_may_be_repeated(line: Line) -> None:
    await submit(line.direct, 1)
    (lease,) = await claim(line.direct, 1, lease_seconds=10.0)
    ref = LeaseRef(lease.id, lease.fencing_token)
    before = await line.row(lease)
    for number in range(TIMES):
        await line.lose(lambda: line.store.heartbeat([ref], 20.0))
        after = await line.row(lease)
        assert after["lease_expires_at"] > before["lease_expires_at"]
        assert after["fencing_token"] == lease.fencing_token
        assert after["attempt_count"] == 1
        assert [one.held for one in await line.store.heartbeat([ref], 20.0)] == [True]
        await line.lose(partial(line.store.progress, ref, str(number)))
        assert (await line.row(lease))["progress"] == str(number)
        before = await line.row(lease)
    assert await line.counts() == (0, 1, 0, 0)


async def test_a_read_whose_answer_is_lost_changes_nothing(line: Line) -> None:
    (task_id,) = await submit(line.direct, 1)
    for _ in range(TIMES):
        line.proxy.lose_replies = 1
        with pytest.raises(StoreUnavailable):
            await line.store.get(task_id)
        assert await line.counts() == (1, 0, 0, 0)
