"""The plans of the hot statements on a store that is full: a million tasks that wait, and hundreds
of thousands of the future and of the finished. What a statement reads must depend on what it
returns, not on what is there.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from mainspring.adapters.postgres.ages import arrays_of_ages
from mainspring.adapters.postgres.arrays import array_of
from mainspring.adapters.postgres.pool import SESSION
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.settle import DEATHS
from mainspring.domain.ids import floor_id
from mainspring.domain.priority import LANES, LIMIT_SECONDS, STEPS, WEIGHTS
from mainspring.domain.task import ATTEMPTS_KEPT

pytestmark = [pytest.mark.postgres, pytest.mark.plans, pytest.mark.slow, pytest.mark.timeout(600)]

BATCH = 100
ENDING = {"tasks_pkey", "webhooks_pkey"}
"""What statements that end tasks look into."""
TYPES = [f"type_{n}" for n in range(10)]
LOWEST = UUID(int=0)
HIGHEST = UUID(int=2**128 - 1)


@pytest.fixture(scope="module")
def full_store(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database that is made once for this module: it takes half a minute."""
    with asyncio.Runner() as runner:
        name = runner.run(postgres_server.create_database(migrated=True))
        dsn = postgres_server.dsn(name)
        runner.run(fill(dsn))
        yield dsn
        runner.run(postgres_server.drop_database(name))


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        script = Path(__file__).with_name("full_store.sql").read_text(encoding="utf-8")
        for statement in re.split(r";\n(?!END|\$)", script):
            if statement.strip():
                await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def full(full_store: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection with the settings of the store's own, in a transaction that is undone."""
    settings = {**SESSION, "statement_timeout": "60000"}
    connection = await asyncpg.connect(full_store, server_settings=settings)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


@pytest.fixture(params=["generic", "custom"])
def plan_mode(request: pytest.FixtureRequest) -> str:
    """Prepared once for all arguments, and planned anew each time as behind a pooler."""
    mode: str = request.param
    return mode


class Plan:
    """What a statement did."""

    def __init__(self, explained: dict[str, Any]) -> None:
        self.nodes = [*_nodes(explained["Plan"])]
        self.buffers = (
            explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"]
        )

    def scanned(self) -> list[str]:
        """Tables that were read from end to end, but for the workers, who are few."""
        names = [node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"]
        return [name for name in names if name != "workers"]

    def rows_read(self, table: str) -> int:
        """Rows that came out of scans of a table or were thrown away by its filters."""
        read = 0.0
        for node in self.nodes:
            of_table = node.get("Relation Name", "").startswith(table)
            if of_table and node["Node Type"] != "ModifyTable":
                rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
                read += rows * node["Actual Loops"]
        return round(read)

    def indexes(self) -> set[str]:
        return {
            node["Index Name"]
            for node in self.nodes
            if "Index Name" in node and node["Actual Loops"] > 0
        }


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def explain(connection: asyncpg.Connection, mode: str, name: str, *arguments: Any) -> Plan:
    await connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
    await connection.execute(f"PREPARE {name} AS {QUERIES[name].sql}")
    values = f"({', '.join(map(literal, arguments))})" if arguments else ""
    answer = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name}{values}"
    )
    return Plan(json.loads(answer)[0])


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list):
        elements = ("NULL" if element is None else f'"{element}"' for element in value)
        return f"'{{{','.join(elements)}}}'"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


def claim_arguments(types: list[str], queues: list[str] | None = None) -> tuple[Any, ...]:
    ages = arrays_of_ages(None, LIMIT_SECONDS)
    weights = array_of(WEIGHTS[lane] for lane in LANES)
    steps = array_of(STEPS[lane] for lane in LANES)
    return (
        None, "w", BATCH, 60.0, types, queues, *ages[:4],
        weights, steps, "{0,0,0,0}", [], [], [], [], *ages[4:],
    )  # fmt: skip


async def running(connection: asyncpg.Connection, count: int) -> tuple[list[UUID], list[int]]:
    """Let so many tasks run; the statistics of the table do not know of them."""
    rows = await connection.fetch(
        "UPDATE mainspring.tasks SET status = 'running', fencing_token = 1, worker_id = 'w', "
        "attempt_count = 1, lease_expires_at = now(), started_at = now() WHERE id IN "
        "(SELECT id FROM mainspring.tasks WHERE status = 'pending' ORDER BY id LIMIT $1) "
        "RETURNING id",
        count,
    )
    ids = sorted(row["id"] for row in rows)
    return ids, [1] * len(ids)


async def test_claim(full: asyncpg.Connection, plan_mode: str) -> None:
    plan = await explain(full, plan_mode, "claim", *claim_arguments(TYPES))
    assert plan.scanned() == []
    assert {"tasks_waiting", "tasks_pkey"} <= plan.indexes()
    # Every range of every lane may be looked at for the lane's quota: 32 ranges.
    assert plan.rows_read("tasks") < 32 * (BATCH // 2 + 4) + 3 * BATCH
    assert plan.buffers < 8_000


async def test_claim_when_nothing_can_be_taken(full: asyncpg.Connection, plan_mode: str) -> None:
    """An idle poll in front of all tasks of the future."""
    plan = await explain(full, plan_mode, "claim", *claim_arguments(TYPES, ["future"]))
    assert plan.scanned() == []
    assert plan.rows_read("tasks") < 50
    assert plan.buffers < 500


async def test_claim_of_other_types_in_front_of_the_future(
    full: asyncpg.Connection, plan_mode: str
) -> None:
    plan = await explain(full, plan_mode, "claim", *claim_arguments(["other"], ["future"]))
    assert plan.rows_read("tasks") <= 11 * 100 + 50
    assert plan.buffers < 6_000


async def test_claim_of_other_types_behind_a_backlog(
    full: asyncpg.Connection, plan_mode: str
) -> None:
    """A million tasks that this worker cannot run: a part of them is passed at a time."""
    plan = await explain(full, plan_mode, "claim", *claim_arguments(["other"], ["default"]))
    assert plan.scanned() == []
    assert plan.rows_read("tasks") <= 11 * 2_000 + 50
    assert plan.buffers < 25_000


async def test_complete(full: asyncpg.Connection, plan_mode: str) -> None:
    ids, tokens = await running(full, BATCH)
    plan = await explain(full, plan_mode, "complete", None, ids, tokens, ["{}"] * BATCH)
    assert (plan.scanned(), plan.indexes()) == ([], ENDING)
    assert plan.rows_read("tasks") == BATCH


async def test_retry(full: asyncpg.Connection, plan_mode: str) -> None:
    ids, tokens = await running(full, BATCH)
    text = ["error"] * BATCH
    plan = await explain(
        full, plan_mode, "retry", None, ATTEMPTS_KEPT, ids, tokens, [2.0] * BATCH, text, text, text,
        DEATHS,
    )  # fmt: skip
    assert (plan.scanned(), plan.indexes()) == ([], ENDING)
    assert plan.rows_read("tasks") <= 5 * BATCH


async def test_fail_cancel_and_release(full: asyncpg.Connection, plan_mode: str) -> None:
    ids, tokens = await running(full, 3 * BATCH)
    parts = [(ids[n::3], tokens[n::3]) for n in range(3)]
    text = ["error"] * BATCH
    failed = await explain(
        full, plan_mode, "fail", None, ATTEMPTS_KEPT, *parts[0], text, text, text, DEATHS
    )
    cancelled = await explain(full, plan_mode, "end_cancelled", None, *parts[1], text)
    released = await explain(full, plan_mode, "release", None, *parts[2], [0.0] * BATCH)
    for plan in (failed, cancelled, released):
        assert (plan.scanned(), plan.indexes()) == ([], ENDING)
        assert plan.rows_read("tasks") <= 4 * BATCH


async def test_heartbeat_and_watch(full: asyncpg.Connection, plan_mode: str) -> None:
    ids, tokens = await running(full, BATCH)
    for plan in (
        await explain(full, plan_mode, "heartbeat", None, ids, tokens, 60.0),
        await explain(full, plan_mode, "watch", ids, tokens),
    ):
        assert (plan.scanned(), plan.indexes()) == ([], {"tasks_pkey"})
        assert plan.rows_read("tasks") == BATCH


async def test_rescue(full: asyncpg.Connection, plan_mode: str) -> None:
    plan = await explain(full, plan_mode, "rescue", None, ATTEMPTS_KEPT, BATCH, "lease_expired")
    assert (plan.scanned(), plan.rows_read("tasks")) == ([], 0)
    assert "tasks_running" in plan.indexes()
    await running(full, 3 * BATCH)
    await full.execute("DEALLOCATE rescue")
    plan = await explain(full, plan_mode, "rescue", None, ATTEMPTS_KEPT, BATCH, "lease_expired")
    assert plan.scanned() == []
    assert plan.rows_read("tasks") <= 5 * BATCH


async def test_cancel_and_reschedule(full: asyncpg.Connection, plan_mode: str) -> None:
    rows = await full.fetch("SELECT id FROM mainspring.tasks ORDER BY id LIMIT $1", BATCH)
    ids = [row["id"] for row in rows]
    later = datetime(2190, 1, 1, tzinfo=UTC)
    plan = await explain(full, plan_mode, "reschedule", None, ids[0], later)
    assert (plan.scanned(), plan.indexes(), plan.rows_read("tasks")) == ([], {"tasks_pkey"}, 1)
    plan = await explain(full, plan_mode, "cancel", None, ids, "why")
    assert (plan.scanned(), plan.indexes()) == ([], ENDING)
    assert plan.rows_read("tasks") <= 3 * BATCH


async def test_reads_by_id(full: asyncpg.Connection, plan_mode: str) -> None:
    ids = [
        row["id"]
        for row in await full.fetch(
            "(SELECT id FROM mainspring.task_history ORDER BY id LIMIT 50) UNION ALL "
            "(SELECT id FROM mainspring.tasks ORDER BY id LIMIT 50)"
        )
    ]
    plan = await explain(full, plan_mode, "get", None, ids[0])
    assert plan.scanned() == []
    assert plan.buffers < 50
    plan = await explain(full, plan_mode, "statuses", ids)
    assert plan.scanned() == []
    assert plan.buffers < 100 * 30


async def test_pages(full: asyncpg.Connection, plan_mode: str) -> None:
    """The first page, one from the middle, and those with an index of their own."""
    middle = floor_id(datetime.now(UTC) - timedelta(days=5))
    everything = (None,) * 8
    for high in (HIGHEST, middle):
        plan = await explain(full, plan_mode, "page", None, high, LOWEST, BATCH, *everything)
        assert plan.scanned() == []
        assert plan.buffers < 1_500
        await full.execute("DEALLOCATE page")
    filters = (None,) * 5
    plan = await explain(
        full, plan_mode, "page_finished", None, HIGHEST, LOWEST, BATCH, "type_0", *filters,
        "cancelled",
    )  # fmt: skip
    assert plan.scanned() == []
    assert plan.rows_read("task_history") <= 2 * BATCH
    await running(full, BATCH)
    plan = await explain(full, plan_mode, "page_running", None, HIGHEST, LOWEST, 20, None, *filters)
    assert plan.scanned() == []
    assert plan.rows_read("tasks") == BATCH
    plan = await explain(full, plan_mode, "scan_floor", HIGHEST, LOWEST, 20_000)
    assert plan.scanned() == []
    assert plan.rows_read("task") <= 3 * 20_001


async def test_counts_stop_at_their_bound(full: asyncpg.Connection, plan_mode: str) -> None:
    plan = await explain(full, plan_mode, "queues", None, 1_000)
    assert plan.scanned() == []
    assert plan.rows_read("tasks") <= 3 * 2 * 1_000 * 11
    plan = await explain(full, plan_mode, "dead_letter_count", 1_000)
    assert plan.scanned() == []


async def test_placement(full: asyncpg.Connection, plan_mode: str) -> None:
    """Beside a full queue, a branch of 500 tasks; the queues themselves are few."""
    await full.execute("INSERT INTO mainspring.queues (name) VALUES ('default@gpu')")
    await full.execute(
        "UPDATE mainspring.tasks SET queue = 'default@gpu' WHERE id IN ("
        "SELECT id FROM mainspring.tasks WHERE queue = 'default' ORDER BY id LIMIT 500)"
    )
    await running(full, BATCH)
    for patience, most in ((0.2, 11), (1e9, 500)):
        looked = await explain(
            full, plan_mode, "branches_due", None, ["gpu"], None, TYPES, patience, 1000,
            [], [], [], [],
        )  # fmt: skip
        assert set(looked.scanned()) <= {"queues"}
        assert looked.rows_read("tasks") <= most
        await full.execute("DEALLOCATE branches_due")
    loads = await explain(full, plan_mode, "worker_loads", None, 15.0)
    assert loads.scanned() == []
    assert loads.rows_read("tasks") <= BATCH
    stuck = await explain(full, plan_mode, "unplaceable", None, 1000)
    assert set(stuck.scanned()) <= {"queues"}
    assert stuck.rows_read("tasks") <= 500


async def test_submission_into_the_full_store(full: asyncpg.Connection) -> None:
    """The functions' own statements are seen by what they read."""
    before = 0
    for statement in (
        "SELECT mainspring.submit('type_0')",
        "SELECT mainspring.submit_v2('type_0', unique_key => 'u')",
        # Answered with the one of before.
        "SELECT mainspring.submit_v2('type_0', unique_key => 'u')",
    ):
        await full.execute(statement)
        reads = await full.fetchval(
            "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_xact_user_tables "
            "WHERE schemaname = 'mainspring'"
        )
        assert reads - before < 20
        before = reads


@pytest.mark.parametrize("upkeep", ["ANALYZE", "VACUUM (ANALYZE)"])
async def test_plans_made_on_empty_tables_hold_when_they_fill(
    database: str, sql: asyncpg.Connection, upkeep: str
) -> None:
    """A worker that polled an empty store for a day, and then a flood before any ANALYZE."""
    await sql.execute("INSERT INTO mainspring.queues VALUES ('default')")
    await sql.execute("SELECT mainspring.submit('type_0')")
    await sql.execute("DELETE FROM mainspring.tasks")
    # Before the plans are made: they would be made anew after it.
    await sql.execute("ALTER TABLE mainspring.tasks SET (autovacuum_enabled = off)")
    await sql.execute(upkeep)
    worker = await asyncpg.connect(database, server_settings=SESSION)
    try:
        claim = await worker.prepare(QUERIES["claim"].sql)
        for _ in range(8):
            assert len(await claim.fetch(*claim_arguments(TYPES))) == 1
        before = await reads_of(sql)
        await sql.execute(
            "INSERT INTO mainspring.tasks (id, task_type, payload, queue, priority, scheduled_at, "
            "created_at, timeout_seconds, max_retries, backoff_kind) SELECT gen_random_uuid(), "
            "'type_0', '{}', 'default', 5, now() + n * interval '1 second', now(), 300, 3, "
            "'exponential' FROM generate_series(-5000, 50000) n"
        )
        assert len(await claim.fetch(*claim_arguments(TYPES))) == BATCH + 1
        await worker.execute("SELECT pg_stat_force_next_flush()")
        assert await reads_of(sql) - before < 2_000
    finally:
        await worker.close()


async def reads_of(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables "
        "WHERE relname = 'tasks'"
    )
    return count
