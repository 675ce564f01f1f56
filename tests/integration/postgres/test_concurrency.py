"""Many at once: exactly one task a key, no task twice, no deadlock that anybody sees."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID

import asyncpg
import pytest

from integration.postgres.callers import RollbackError, with_asyncpg
from integration.postgres.steps import claim, completed, new_task, submit
from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.domain.task import (
    CancelState,
    Lease,
    LeaseRef,
    NewTask,
    Released,
    Settlement,
    Submission,
)

pytestmark = pytest.mark.postgres
CLIENTS = 5
KEYS = 40


@pytest.fixture
async def stores(database: str) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        opened = [await open_store(PoolOptions(dsn=database)) for _ in range(CLIENTS)]
        for store in opened:
            stack.push_async_callback(store.close)
        yield opened


async def submitted(
    caller: PostgresCallerTransactions, tasks: list[NewTask], connection: asyncpg.Connection
) -> list[Submission]:
    return await caller.submit(connection, tasks)


async def test_one_key_makes_one_task_whoever_comes_first_and_whoever_gives_up(
    stores: list[PostgresStore], database: str, rng: random.Random, sql: asyncpg.Connection
) -> None:
    """Clients submit the same keys in batches of their own order; some roll back in the end."""
    caller = PostgresCallerTransactions()

    async def client(store: PostgresStore, seed: int) -> list[tuple[str, Submission]]:
        chance = random.Random(seed)
        keys = [f"key-{n}" for n in range(KEYS)]
        chance.shuffle(keys)
        got: list[tuple[str, Submission]] = []
        for first in range(0, KEYS, 8):
            batch = keys[first : first + 8]
            tasks = [new_task(key=key, fingerprint=key) for key in batch]
            if chance.random() < 0.3:
                with pytest.raises(RollbackError):
                    await with_asyncpg(database, partial(submitted, caller, tasks), commit=False)
            got += zip(batch, await store.submit(tasks), strict=True)
        return got

    seeds = [rng.getrandbits(32) for _ in range(CLIENTS * 4)]
    results = await asyncio.gather(
        *(client(stores[n % CLIENTS], seed) for n, seed in enumerate(seeds))
    )
    ids: dict[str, set[UUID]] = {}
    made: Counter[str] = Counter()
    for key, answer in (pair for result in results for pair in result):
        assert not answer.conflict
        ids.setdefault(key, set()).add(answer.id)
        made[key] += answer.is_new
    assert all(len(found) == 1 for found in ids.values())
    assert made == Counter(dict.fromkeys(ids, 1))
    stored = await sql.fetch("SELECT key, count(*) FROM mainspring.tasks GROUP BY key")
    assert dict(map(tuple, stored)) == dict.fromkeys(ids, 1)


async def test_concurrent_claims_share_no_task_and_leave_none(
    stores: list[PostgresStore], rng: random.Random
) -> None:
    ids = {
        task_id
        for priority in range(11)
        for task_id in await submit(stores[0], 100, priority=priority)
    }
    starts: Counter[UUID] = Counter()

    async def work(store: PostgresStore, worker: str) -> None:
        while leases := await claim(store, rng.randrange(1, 40), worker_id=worker):
            starts.update(lease.id for lease in leases)
            assert all(await store.settle([completed(lease) for lease in leases]))

    await asyncio.gather(*(work(stores[n % CLIENTS], f"w{n}") for n in range(10)))
    assert starts == Counter(dict.fromkeys(ids, 1))


async def test_writers_of_the_same_rows_in_every_order_see_no_deadlock(
    stores: list[PostgresStore], rng: random.Random
) -> None:
    await submit(stores[0], 60)
    leases = await claim(stores[0], 60)

    async def settle(store: PostgresStore) -> int:
        mine = leases[:]
        rng.shuffle(mine)
        ended = await store.settle(
            [
                completed(lease)
                if n % 2
                else Settlement(lease.id, lease.fencing_token, Released(60.0))
                for n, lease in enumerate(mine)
            ]
        )
        return sum(ended)

    async def beat(store: PostgresStore) -> None:
        mine = [LeaseRef(lease.id, lease.fencing_token) for lease in leases]
        rng.shuffle(mine)
        await store.heartbeat(mine, 60.0)

    async def cancel(store: PostgresStore) -> None:
        mine = [lease.id for lease in leases[:20]]
        rng.shuffle(mine)
        await store.cancel(mine)

    counts = await asyncio.gather(
        *(settle(stores[n % CLIENTS]) for n in range(4)),
        *(beat(stores[n % CLIENTS]) for n in range(8)),
        *(cancel(stores[n % CLIENTS]) for n in range(4)),
    )
    assert sum(count or 0 for count in counts) == 60


async def test_what_was_cancelled_while_it_waited_never_starts(
    stores: list[PostgresStore],
) -> None:
    ids = await submit(stores[0], 300)
    started: set[UUID] = set()
    cancelled: set[UUID] = set()

    async def work(store: PostgresStore) -> None:
        while leases := await claim(store, 5):
            started.update(lease.id for lease in leases)

    async def cancel(store: PostgresStore, part: list[UUID]) -> None:
        for first in range(0, len(part), 5):
            mine = part[first : first + 5]
            states = await store.cancel(mine)
            cancelled.update(
                task_id
                for task_id, state in zip(mine, states, strict=True)
                if state is CancelState.CANCELLED
            )

    await asyncio.gather(
        *(work(stores[n]) for n in range(3)),
        *(cancel(stores[n % CLIENTS], ids[-1 - n :: -4]) for n in range(4)),
    )
    assert not started & cancelled
    assert started | cancelled == set(ids)


async def test_a_reply_that_was_lost_never_doubles_a_task(
    stores: list[PostgresStore], sql: asyncpg.Connection
) -> None:
    """The same submission again: while it waits, runs, is finished, and at the same moment."""
    tasks = [new_task(key="k", fingerprint="f"), *(new_task() for _ in range(30))]
    await asyncio.gather(*(store.submit(tasks) for store in stores))
    leases: list[Lease] = await claim(stores[0], 20)
    await stores[0].settle([completed(lease) for lease in leases[:10]])
    again = await asyncio.gather(*(store.submit(tasks) for store in stores))
    for answers in again:
        assert answers == [Submission(task.id, is_new=False) for task in tasks]
    count = """
        SELECT (SELECT count(*) FROM mainspring.tasks)
            + (SELECT count(*) FROM mainspring.task_history)
    """
    assert await sql.fetchval(count) == 31
