"""The clock of the machine that a process runs on decides nothing that is stored."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from integration.postgres.steps import claim, submit
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.system import SystemClock

pytestmark = pytest.mark.postgres


async def test_a_process_whose_clock_is_wrong_takes_no_lease_back_and_leaves_none(
    store: PostgresStore, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(store, 2)
    early, late = await claim(store, 2, lease_seconds=60.0)
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + timedelta(hours=1))
    assert await store.rescue(10) == []
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) - timedelta(hours=1))
    await sql.execute(
        "UPDATE mainspring.tasks SET lease_expires_at = clock_timestamp() WHERE id = $1", late.id
    )
    assert [one.id for one in await store.rescue(10)] == [late.id]
    assert early.id != late.id
