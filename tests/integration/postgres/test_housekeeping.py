"""Housekeeping by several schedulers at once."""

import asyncio
from datetime import UTC, datetime

import asyncpg
import pytest

from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres

OLD = datetime(2024, 1, 15, tzinfo=UTC)
KEEP_DAYS = 30.0


async def test_a_month_that_another_scheduler_is_dropping_is_left_to_it(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await sql.execute("SELECT mainspring.prepare_history_v1(0, $1)", OLD)
    other = sql.transaction()
    await other.start()
    dropped = await sql.fetchval(QUERIES["drop_history"].sql, None, KEEP_DAYS * 86400)
    assert dropped == "task_history_2024_01"
    ours = asyncio.create_task(store.drop_history(KEEP_DAYS))
    # Ours gives up or waits for the lock on the history; the other one ends either way.
    await asyncio.wait({ours}, timeout=0.5)
    await other.commit()
    assert await ours == []
    assert await store.drop_history(KEEP_DAYS) == []
