"""What runs behind the API goes on after every error of the store, not after outages alone: such as
a schema that is not there while somebody restores a database.
"""

import asyncio

import asyncpg
import httpx
import pytest

from api.conftest import Api
from mainspring.api.doorkeeper import LOOPBACK_NAMES, Doorkeeper
from mainspring.api.metrics import Metrics
from mainspring.core.access import Authenticator
from mainspring.core.changes import Changes
from mainspring.core.shedding import Shedder
from mainspring.domain.errors import MigrationNeeded
from mainspring.domain.ids import make_id
from manual_clock import ManualClock

HIDE = "ALTER SCHEMA mainspring RENAME TO elsewhere"
SHOW = "ALTER SCHEMA elsewhere RENAME TO mainspring"


@pytest.fixture
def changes_more_than_rows() -> bool:
    return True


async def test_a_schema_that_is_gone_for_a_while_ends_none_of_the_duties(
    api: Api, database: str
) -> None:
    clock = ManualClock()
    doorkeeper = Doorkeeper(Authenticator(api.store, clock), clock, hosts=LOOPBACK_NAMES)
    who = await Authenticator(api.store, clock).principal(await api.key())
    shedder = Shedder(api.store, clock)
    metrics = Metrics(api.store, api.store, shedder, clock)
    changes = Changes(api.store, clock)
    running = [asyncio.create_task(each.run()) for each in (shedder, metrics)]
    duties = len(running) + 2

    def is_seen() -> bool:
        return shedder.pressure.reachable

    with doorkeeper.stream(who) as stay, changes.watch(make_id(0, 0, None)):
        await clock.sleeping(duties)
        assert is_seen()
        sql = await asyncpg.connect(database)
        await sql.execute(HIDE)
        with pytest.raises(MigrationNeeded):
            await api.store.queue_names()
        clock.advance(60.0)
        await clock.sleeping(duties)
        assert not is_seen()
        await sql.execute(SHOW)
        await sql.close()
        clock.advance(60.0)
        await clock.sleeping(duties)
        assert is_seen()
        assert not stay.is_over
    for each in running:
        each.cancel()
    await doorkeeper.close()
    await changes.close()


async def test_what_was_leased_is_given_out_although_the_register_is_gone(
    client: httpx.AsyncClient, database: str
) -> None:
    await client.post("/v1/tasks", json={"task_type": "t"})
    sql = await asyncpg.connect(database)
    await sql.execute("ALTER TABLE mainspring.workers RENAME TO elsewhere")
    await sql.close()
    answer = await client.post("/v1/leases", json={"worker_id": "w", "task_types": ["t"]})
    assert len(answer.json()["leases"]) == 1, answer.text
