"""Groups and limits on a real server: how much an admission reads, many that claim at once, rates
in real time, and fairness behind a large group.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from integration.postgres.steps import new_task
from mainspring.adapters.postgres.pool import SESSION, PoolOptions
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.domain.limits import RATE_MIN, Limit
from mainspring.domain.priority import Level
from mainspring.domain.task import Completed, Lease, Settlement
from mainspring.ports.store import ClaimRequest
from mainspring.ports.workers import WorkerState

pytestmark = [pytest.mark.postgres]

BATCH = 100
PRIORITIES = list(range(11))

HELD = """
    WITH stored AS (
        INSERT INTO mainspring.tasks (
            id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
            max_retries, backoff_kind, status, group_key)
        SELECT gen_random_uuid(), 'mail', '{}', 'default', 5, now() - interval '1 hour', now(), 300,
            3, 'exponential', $1, 'g' || n % $3
        FROM generate_series(1, $2::integer) n
        RETURNING group_key
    )
    INSERT INTO mainspring.lines (queue, group_key, priority, turn)
    SELECT DISTINCT 'default', group_key, 5, 0 FROM stored WHERE $1 = 'held'
"""


@pytest.fixture
async def other(database: str) -> AsyncIterator[PostgresStore]:
    """A second worker process, as far as the server can tell."""
    opened = await open_store(PoolOptions(dsn=database))
    yield opened
    await opened.close()


@pytest.fixture
async def admitting(database: str, sql: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection of a worker that polled while everything was empty, and kept its plans."""
    await sql.execute("INSERT INTO mainspring.queues (name) VALUES ('default')")
    for table in ("tasks", "lines", "gates", "buckets"):
        await sql.execute(f"ALTER TABLE mainspring.{table} SET (autovacuum_enabled = off)")
    await sql.execute("INSERT INTO mainspring.gates (queue) VALUES ('default')")
    await sql.execute("VACUUM (ANALYZE)")
    connection = await asyncpg.connect(database, server_settings=SESSION)
    for _ in range(7):
        await open_gate(sql)
        await admit(connection)
    yield connection
    await connection.close()


async def admit(connection: asyncpg.Connection, freed: list[str] | None = None) -> tuple[int, int]:
    """Admit a batch; returns how many were admitted and how many rows were read for it."""
    keys = freed or []
    async with connection.transaction():
        before = await reads_of(connection)
        rows = await connection.fetch(
            QUERIES["admit"].sql, None, BATCH, ["mail"], None, [], PRIORITIES, [0.0] * 11,
            [None] * 11, ["default"] * len(keys), keys,
        )  # fmt: skip
        return sum(row["admitted"] for row in rows), await reads_of(connection) - before


async def open_gate(sql: asyncpg.Connection) -> None:
    await sql.execute("UPDATE mainspring.gates SET ready_at = now()")


async def reads_of(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval(
        "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint "
        "FROM pg_stat_xact_user_tables WHERE schemaname = 'mainspring'"
    )
    return count


async def start_all(sql: asyncpg.Connection) -> None:
    await sql.execute(
        "UPDATE mainspring.tasks SET status = 'running', "
        "lease_expires_at = now() + interval '1 hour' WHERE status = 'pending'"
    )


async def test_an_admission_from_a_large_group_reads_as_much_as_it_admits(
    admitting: asyncpg.Connection, sql: asyncpg.Connection
) -> None:
    await sql.execute(HELD, "held", 50_000, 1)
    await open_gate(sql)
    for _ in range(3):
        admitted, reads = await admit(admitting)
        await start_all(sql)
        assert admitted == BATCH
        assert reads < 8 * BATCH


async def test_an_admission_from_many_groups_reads_as_much_as_it_admits(
    admitting: asyncpg.Connection, sql: asyncpg.Connection
) -> None:
    await sql.execute(HELD, "held", 20_000, 5_000)
    await open_gate(sql)
    for _ in range(3):
        admitted, reads = await admit(admitting)
        await start_all(sql)
        assert admitted == BATCH
        assert reads < 20 * BATCH


async def test_ten_thousand_groups_without_room_are_out_of_the_way(
    admitting: asyncpg.Connection, sql: asyncpg.Connection
) -> None:
    await sql.execute("UPDATE mainspring.queues SET group_concurrency = 1")
    await sql.execute(HELD, "held", 20_000, 10_000)
    await sql.execute(HELD, "pending", 10_000, 10_000)
    await start_all(sql)
    await sql.execute("UPDATE mainspring.lines SET until = now() + interval '1 hour'")
    await sql.execute("UPDATE mainspring.gates SET ready_at = now() + interval '1 hour'")
    await sql.execute("DELETE FROM mainspring.tasks WHERE status = 'running' AND group_key = 'g7'")
    await admit(admitting, ["g8"])
    assert (await admit(admitting, ["g8"]))[0] == 0
    admitted, reads = await admit(admitting, ["g7"])
    assert admitted == 1
    assert reads < 100
    # The look at those whose time has come, in case a word of room was lost, is bounded as well.
    await sql.execute("UPDATE mainspring.lines SET until = now()")
    await open_gate(sql)
    admitted, reads = await admit(admitting)
    assert admitted == 0
    assert reads < 4_000


async def test_limits_that_change_are_looked_at_in_many_lines_a_part_at_a_time(
    admitting: asyncpg.Connection, sql: asyncpg.Connection
) -> None:
    await sql.execute("UPDATE mainspring.queues SET group_concurrency = 1")
    await sql.execute(
        "INSERT INTO mainspring.lines (queue, group_key, priority, turn, until) "
        "SELECT 'default', 'g' || n, 5, 0, now() + interval '1 hour' "
        "FROM generate_series(1, 12000) n"
    )
    await sql.execute("UPDATE mainspring.gates SET changed = true")
    for left in (7_000, 2_000, 0):
        await open_gate(sql)
        await admit(admitting)
        assert (
            await sql.fetchval("SELECT count(*) FROM mainspring.lines WHERE until IS NOT NULL")
            == left
        )
    assert not await sql.fetchval("SELECT changed FROM mainspring.gates")


async def test_what_becomes_due_is_let_in_line_a_part_at_a_time(
    admitting: asyncpg.Connection, sql: asyncpg.Connection
) -> None:
    await sql.execute(HELD, "coming", 10_000, 10)
    admitted, reads = await admit(admitting)
    assert admitted == BATCH
    assert reads < 20_000
    assert (
        await sql.fetchval("SELECT count(*) FROM mainspring.tasks WHERE status = 'coming'") == 8_000
    )


async def claim(
    store: PostgresStore, limit: int, worker: str = "w", lanes: tuple[Level, ...] | None = None
) -> list[Lease]:
    request = ClaimRequest(
        worker_id=worker, limit=limit, lease_seconds=60.0, task_types=("mail",), lanes=lanes
    )
    return (await store.claim(request)).leases


async def complete(store: PostgresStore, leases: list[Lease]) -> None:
    ends = [Settlement(lease.id, lease.fencing_token, Completed("{}")) for lease in leases]
    assert all(await store.settle(ends))


async def test_workers_that_claim_at_once_never_pass_a_limit(
    store: PostgresStore, other: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.set_limits("default", whole=Limit(concurrency=7), group=Limit(concurrency=3))
    tasks = [new_task(group_key=f"g{n % 5}" if n % 6 else None) for n in range(400)]
    await store.submit(tasks)
    left = len(tasks)

    async def work(each: PostgresStore, name: str) -> None:
        nonlocal left
        while left > 0:
            leases = await claim(each, 5, name)
            running = await sql_running(each)
            assert sum(running.values()) <= 7, running
            assert max(running.values(), default=0) <= 3, running
            await complete(each, leases)
            left -= len(leases)

    await asyncio.gather(
        *(work(each, f"w{n}") for n, each in enumerate([store, other, store, other]))
    )
    assert await sql.fetchval("SELECT count(*) FROM mainspring.task_history") == len(tasks)
    assert await sql.fetchval("SELECT count(*) FROM mainspring.lines") == 0


async def test_who_finds_others_at_a_gate_again_and_again_waits_longer(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.set_limits("default", whole=Limit(concurrency=1))
    await store.submit([new_task(group_key="g", task_type="rare")])
    request = ClaimRequest(worker_id="w", limit=1, lease_seconds=60.0, task_types=("mail",))

    async def wait() -> float | None:
        return (await store.claim(request)).next_due_seconds

    assert await wait() is None
    for _ in range(2):
        async with sql.transaction():
            await sql.execute("SELECT FROM mainspring.gates FOR UPDATE")
            assert [await wait() for _ in range(6)] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.16]
        assert await wait() is None


async def sql_running(store: PostgresStore) -> Counter[str]:
    """What runs at one moment, by group."""
    connection = await asyncpg.connect(store._connections.options.dsn)
    try:
        rows = await connection.fetch(
            "SELECT group_key, count(*) FROM mainspring.tasks WHERE status = 'running' GROUP BY 1"
        )
    finally:
        await connection.close()
    return Counter({row["group_key"]: row["count"] for row in rows})


async def test_a_rate_is_kept_in_every_span_of_time_and_reached(
    store: PostgresStore, other: PostgresStore
) -> None:
    """Two workers, one group with a rate and another with the smallest burst, which loses what
    passes between a token and the next look.
    """
    rates = {"fast": (60.0, 12), "slow": (2.0, 1)}
    for key, (rate, burst) in rates.items():
        await store.set_group_limit("default", key, Limit(rate=rate, burst=burst))
        await store.submit([new_task(group_key=key) for _ in range(400)])
    end = asyncio.get_running_loop().time() + 3.0
    starts: dict[str, list[datetime]] = {key: [] for key in rates}

    async def work(each: PostgresStore, name: str) -> None:
        request = ClaimRequest(worker_id=name, limit=20, lease_seconds=60.0, task_types=("mail",))
        while (now := asyncio.get_running_loop().time()) < end:
            answer = await each.claim(request)
            for lease in answer.leases:
                starts[str(lease.group_key)].append(lease.started_at)
            await complete(each, answer.leases)
            pause = min(answer.next_due_seconds or 0.01, end - now)
            await asyncio.sleep(max(0.001, pause))

    await asyncio.gather(work(store, "w1"), work(other, "w2"))
    for key, (rate, burst) in rates.items():
        times = sorted(at.timestamp() for at in starts[key])
        for first in range(len(times)):
            for last in range(first, len(times)):
                allowed = burst + rate * (times[last] - times[first])
                assert last - first + 1 <= allowed + 1e-3, (key, times[first], times[last])
        reached = (len(times) - burst) / (times[-1] - times[0])
        print(f"{key}: {len(times)} starts, {reached:.1f} a second of {rate:g}")
        assert reached >= 0.9 * rate or burst == 1


async def test_a_small_group_is_not_kept_waiting_by_a_large_one(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await sql.execute("INSERT INTO mainspring.queues (name) VALUES ('default')")
    await sql.execute(HELD, "coming", 10_000, 1)
    slots = 4
    running = await claim(store, slots)
    for lateness in range(3):
        (answer,) = await store.submit([new_task(group_key=f"small {lateness}")])
        started = []
        while answer.id not in started:
            await complete(store, [running.pop(0)])
            leases = await claim(store, 1)
            started += [lease.id for lease in leases]
            running += leases
            assert len(started) <= 2 * slots


async def test_a_limit_is_kept_while_it_is_set_on_a_queue_in_use(
    store: PostgresStore, other: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.submit([new_task() for _ in range(300)])
    before = await claim(store, 10)
    await other.set_limits("default", whole=Limit(concurrency=12))
    claims = await asyncio.gather(*(claim(each, 20) for each in (store, other, store, other)))
    assert sum(map(len, claims)) == 2
    await complete(store, before)
    assert len(await claim(store, 100)) == 10
    shown = await sql.fetchval("SELECT json_agg(g) FROM mainspring.gates g")
    assert [gate["queue"] for gate in json.loads(shown)] == ["default"]


async def test_what_started_while_there_was_no_limit_counts_when_there_is_one_again(
    store: PostgresStore, other: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.set_limits("default", whole=Limit(concurrency=2))
    await store.submit([new_task() for _ in range(20)])
    before = await claim(other, 2)
    assert await claim(other, 5) == []
    await sql.execute("UPDATE mainspring.gates SET limited_at = now() - interval '1 hour'")
    await store.set_limits("default", whole=Limit())
    await complete(other, before)
    # It fills all that the worker has room for, so nobody looks at the gate.
    assert len(await claim(other, 10)) == 10
    await store.set_limits("default", whole=Limit(concurrency=2))
    assert await claim(other, 5) == []


async def test_what_runs_counts_while_its_lease_is_renewed(
    store: PostgresStore, other: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.submit([new_task() for _ in range(20)])
    running = await claim(store, 5)
    await store.set_limits("default", whole=Limit(concurrency=6))
    async with sql.transaction():
        await sql.execute("SELECT FROM mainspring.tasks WHERE status = 'running' FOR UPDATE")
        running += await claim(other, 10)
        assert len(running) == 6
    await sql.execute("UPDATE mainspring.gates SET limited_at = limited_at - interval '9 seconds'")
    assert await claim(other, 10) == []
    await complete(store, running[:1])
    assert len(await claim(store, 10)) == 1


async def test_a_rate_that_is_hardly_one_holds_up_no_other_queue(store: PostgresStore) -> None:
    for queue in ("a", "b"):
        await store.submit([new_task(queue=queue, group_key="g") for _ in range(3)])
    await store.set_limits("a", whole=Limit(rate=RATE_MIN), group=Limit(rate=RATE_MIN))
    started = [lease.queue for _ in range(3) for lease in await claim(store, 10)]
    assert sorted(started) == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    "fields",
    [{"task_type": "rare"}, {"queue": "default@eu"}, {"priority": 0}],
    ids=["type", "labels", "lane"],
)
async def test_what_no_worker_serves_any_more_gives_its_place_back(
    store: PostgresStore, fields: dict[str, Any]
) -> None:
    """Where nothing is limited all is admitted; then who served a part of it has left."""
    await store.beat(
        WorkerState(
            worker_id="w", hostname="h", pid=1, task_types=("mail",), queues=None,
            lanes=(Level.NORMAL,), slots=5,
        )
    )  # fmt: skip
    (left,) = await store.submit([new_task(group_key="g", **fields)])
    await store.submit([new_task(group_key="g")])
    await complete(store, await claim(store, 5, lanes=(Level.NORMAL,)))
    await store.set_limits("default", group=Limit(concurrency=1))
    await store.submit([new_task(group_key="g")])
    assert await claim(store, 5, lanes=(Level.NORMAL,)) == []
    assert await store.rescue(10) == []
    assert len(await claim(store, 5, lanes=(Level.NORMAL,))) == 1
    task = await store.get(left.id)
    assert task is not None
    assert task.held
