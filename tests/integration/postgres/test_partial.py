"""Calls that take several statements, of which a later one fails after an earlier one committed."""

from datetime import datetime

import asyncpg
import pytest

from integration.postgres.steps import ask, claim, completed, submit
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.domain.errors import MigrationNeeded, OutcomeUnknown, StoreUnavailable
from mainspring.domain.task import Released, Settlement
from mainspring.ports.store import Hint

pytestmark = pytest.mark.postgres


class LostAt:
    """Stands in for the server's clock, until a statement cannot be sent."""

    def __init__(self, statement: int) -> None:
        self._left = statement

    def __call__(self) -> datetime | None:
        self._left -= 1
        if self._left <= 0:
            raise StoreUnavailable("the connection was lost")
        return None


async def test_tasks_of_a_claim_whose_second_look_failed_are_not_forgotten(
    store: PostgresStore, database: str
) -> None:
    # Beyond so many of other types the first look does not see, so there is a second one.
    await submit(store, 2100, task_type="other")
    await submit(store, 3, priority=0)
    unlucky = await open_store(PoolOptions(dsn=database), now=LostAt(2))
    assert len(await claim(unlucky, 10)) == 3
    with pytest.raises(StoreUnavailable):
        await ask(unlucky, 10)
    await unlucky.close()


async def test_endings_of_which_some_were_stored_are_of_unknown_outcome(
    store: PostgresStore, database: str
) -> None:
    await submit(store, 2)
    first, second = await claim(store, 2)
    unlucky = await open_store(PoolOptions(dsn=database), now=LostAt(2))
    endings = [
        completed(first),
        Settlement(second.id, second.fencing_token, Released()),
    ]
    with pytest.raises(OutcomeUnknown, match="some of the attempts were ended"):
        await unlucky.settle(endings)
    await unlucky.close()
    assert await store.settle(endings) == [False, True]


async def test_a_refusal_leaves_no_statement_behind(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await submit(store, 1)
    (lease,) = await claim(store)
    await sql.execute("ALTER TABLE mainspring.task_history RENAME TO elsewhere")
    with pytest.raises(MigrationNeeded):
        await store.settle([completed(lease)])


async def test_a_hint_is_sent_although_the_store_is_closed_at_once(
    store: PostgresStore, database: str
) -> None:
    wakeups = store.wakeups()
    while Hint.READY not in await wakeups.wait(0.1):
        store.announce()
    while await wakeups.wait(0.2):
        pass
    brief = await open_store(PoolOptions(dsn=database))
    await submit(brief)
    await brief.close()
    assert Hint.READY in await wakeups.wait(5)
    await wakeups.close()
