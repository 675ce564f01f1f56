"""The plans of all statements when they were made while a vacuum had left the tables empty.

PostgreSQL keeps the plan of a prepared statement until the statistics of a table change. A queue
that is worked off is found empty by a vacuum, and then a walk over a whole key looks as cheap as a
look-up in it. After a burst it is not.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import asyncpg
import pytest

from mainspring.adapters.postgres.pool import SESSION
from mainspring.adapters.postgres.queries import QUERIES, Query

pytestmark = [pytest.mark.postgres]

_BIG: Final = re.compile(
    r"(tasks|dead_letters|task_history\w*|ticks|schedules|idempotency|webhooks|audit)"
)
"""The tables that grow with what the store holds."""

_ANY_WEBHOOK: Final = "webhooks_pkey"
"""Whether there is a webhook at all is asked first, which ends with the first one."""

_WALKS: Final = {
    "dead_letters_by_end of dead_letter_count": "any rows will do, and a LIMIT bounds them",
    "schedules_buffering of due_schedules": "an index of nothing but what is asked for",
    "audit_pkey of read_audit": "the newest first, and a LIMIT bounds them",
    "tasks_running of leases_of": "what runs, which is as little as there are slots in the fleet",
    "task_history_default of drop_strays": "holds only what lies in no month, which is little",
}
"""Reads of a big table or its index without a condition, and why they may be."""

_ONCE: Final = {"holds_anything"}
"""Asked once in the life of a database, and any row will do."""

_NOT_PLANNED: Final = re.compile(r"(CREATE|DROP)\b")

_COMPLETE: Final = "SELECT mainspring.complete_v1($1, 1, '{}')"

_BURST: Final = """
    WITH stored AS (
        INSERT INTO mainspring.tasks (
            id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
            max_retries, backoff_kind, status, lease_expires_at, fencing_token, started_at)
        SELECT gen_random_uuid(), 'type_0', '{}', 'default', 5, now(), now(), 300, 3,
            'exponential', 'running', now() + interval '1 hour', 1, now()
        FROM generate_series(1, 5000)
        RETURNING id
    ), hooked AS (
        INSERT INTO mainspring.webhooks SELECT id, 'https://a.example', '{}', NULL, 'default'
        FROM stored
    )
    INSERT INTO mainspring.idempotency SELECT id::text, id, '', now() FROM stored
"""


@pytest.fixture
async def emptied(database: str, sql: asyncpg.Connection) -> str:
    """The URL of a database that was worked off and then vacuumed."""
    await sql.execute("INSERT INTO mainspring.queues VALUES ('default')")
    await sql.execute("SELECT mainspring.submit('type_0')")
    await sql.execute("DELETE FROM mainspring.tasks")
    await sql.execute(QUERIES["yardstick_make"].sql)
    # Statistics that change during the test would let the server plan anew.
    for table in ("tasks", "idempotency", "webhooks"):
        await sql.execute(f"ALTER TABLE mainspring.{table} SET (autovacuum_enabled = off)")
    await sql.execute("VACUUM (ANALYZE)")
    return database


async def test_every_look_up_stays_one(emptied: str) -> None:
    connection = await asyncpg.connect(emptied, server_settings=SESSION)
    walks = set()
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        for query in QUERIES:
            if not _NOT_PLANNED.match(query.sql) and query.name not in _ONCE:
                walks |= {
                    f"{walked} of {query.name}"
                    for walked in walked_in(await plan_of(connection, query))
                }
    finally:
        await connection.close()
    assert walks == _WALKS.keys()


async def plan_of(connection: asyncpg.Connection, query: Query) -> dict[str, Any]:
    count = max((int(number) for number in re.findall(r"\$(\d+)", query.sql)), default=0)
    await connection.execute(f"PREPARE {query.name} AS {query.sql}")
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    answer = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {query.name}{values}")
    plan: dict[str, Any] = json.loads(answer)[0]["Plan"]
    return plan


def walked_in(plan: dict[str, Any]) -> Iterator[str]:
    """The big tables, or indexes of them, that a plan reads without a condition."""
    table = plan.get("Relation Name", "")
    if "Scan" in plan["Node Type"] and _BIG.fullmatch(table) and "Index Cond" not in plan:
        index = plan.get("Index Name")
        if (index, plan.get("Parent Relationship")) != (_ANY_WEBHOOK, "InitPlan"):
            yield index or table
    for child in plan.get("Plans", ()):
        yield from walked_in(child)


async def test_functions_in_a_session_of_a_caller_look_up_too(
    emptied: str, sql: asyncpg.Connection
) -> None:
    """A service that submits with keys and completes in transactions of its own, then a burst."""
    caller = await asyncpg.connect(emptied)
    try:
        for n in range(8):
            await caller.execute("SELECT mainspring.submit('type_0', key => $1)", f"early {n}")
            await caller.execute(_COMPLETE, uuid4())
        await sql.execute(_BURST)
        task_id = await sql.fetchval("SELECT task_id FROM mainspring.webhooks LIMIT 1")
        before = await reads_of(caller, sql)
        await caller.execute("SELECT mainspring.submit('type_0', key => 'late')")
        assert await caller.fetchval(_COMPLETE, task_id)
        assert await reads_of(caller, sql) - before < 100
    finally:
        await caller.close()


async def reads_of(caller: asyncpg.Connection, sql: asyncpg.Connection) -> int:
    """How many rows and entries of indexes were read so far."""
    await caller.execute("SELECT pg_stat_force_next_flush()")
    count: int = await sql.fetchval(
        "SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables)"
        " + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::bigint"
    )
    return count
