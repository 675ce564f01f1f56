"""The connections that a store keeps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest

from fixtures.postgres import PostgresServer
from mainspring.adapters.postgres.connections import KeptConnections
from mainspring.domain.errors import StoreUnavailable

pytestmark = pytest.mark.postgres


class Kept(KeptConnections):
    """Two at most, with a count of those that were opened."""

    def __init__(self, dsn: str, idle_seconds: float = 60.0) -> None:
        super().__init__(self.open_one, 2, idle_seconds)
        self.dsn = dsn
        self.opened: list[asyncpg.Connection] = []

    async def open_one(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(self.dsn)
        self.opened.append(connection)
        return connection


@pytest.fixture
async def kept(shared_dsn: str) -> AsyncIterator[Kept]:
    kept = Kept(shared_dsn)
    yield kept
    with suppress(TimeoutError):
        await kept.close(0.01)
    assert all(connection.is_closed() for connection in kept.opened)


@pytest.fixture(scope="module")
def shared_dsn(postgres_server: PostgresServer) -> str:
    return postgres_server.dsn("postgres")


async def test_what_was_used_last_is_used_first(kept: Kept) -> None:
    assert kept.take_free() is None
    one, other = await kept.take(1.0), await kept.take(1.0)
    kept.give_back(one)
    kept.give_back(other)
    assert kept.take_free() is other
    assert await kept.take(1.0) is one
    assert kept.opened == [one, other]


async def test_more_than_the_bound_wait_in_turn(kept: Kept) -> None:
    taken = [await kept.take(1.0), await kept.take(1.0)]
    order: list[int] = []

    async def user(number: int) -> None:
        connection = await kept.take(5.0)
        order.append(number)
        await connection.execute("SELECT 1")
        kept.give_back(connection)

    users = [asyncio.create_task(user(number)) for number in range(20)]
    await asyncio.sleep(0)
    users[3].cancel()
    for connection in taken:
        kept.give_back(connection)
    await asyncio.gather(*users, return_exceptions=True)
    assert order == [number for number in range(20) if number != 3]
    assert len(kept.opened) == 2


async def test_nobody_waits_for_ever(kept: Kept) -> None:
    taken = [await kept.take(1.0), await kept.take(1.0)]
    with pytest.raises(TimeoutError):
        await kept.take(0.02)
    for connection in taken:
        kept.give_back(connection)
    assert kept.take_free() is not None


async def test_a_broken_connection_makes_room(kept: Kept) -> None:
    taken = [await kept.take(1.0), await kept.take(1.0)]
    waiting = asyncio.create_task(kept.take(5.0))
    await asyncio.sleep(0)
    taken[0].terminate()
    kept.give_back(taken[0])
    third = await waiting
    assert third is kept.opened[2]
    kept.give_back(third)
    third.terminate()
    assert kept.take_free() is None


async def test_who_cannot_connect_leaves_room_for_others(kept: Kept) -> None:
    dsn, kept.dsn = kept.dsn, kept.dsn.replace("/postgres", "/missing", 1)
    for _ in range(5):
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await kept.take(5.0)
    kept.dsn = dsn
    assert await kept.take(5.0) is not await kept.take(5.0)


async def test_a_turn_that_comes_too_late_goes_to_the_next(kept: Kept) -> None:
    taken = [await kept.take(1.0), await kept.take(1.0)]
    first = asyncio.create_task(kept.take(5.0))
    second = asyncio.create_task(kept.take(5.0))
    await asyncio.sleep(0)
    # Both in one turn of the event loop: the connection is given, and its taker is gone.
    kept.give_back(taken[0])
    first.cancel()
    assert await second is taken[0]


async def test_what_nobody_needs_is_closed(shared_dsn: str) -> None:
    kept = Kept(shared_dsn, idle_seconds=0.05)
    connection = await kept.take(1.0)
    closed = asyncio.Event()
    connection.add_termination_listener(lambda _: closed.set())
    kept.give_back(connection)
    async with asyncio.timeout(5.0):
        await closed.wait()
    assert kept.take_free() is None
    await kept.close(1.0)


async def test_closing_waits_for_what_is_taken_and_cuts_what_does_not_come(
    shared_dsn: str,
) -> None:
    kept = Kept(shared_dsn)
    taken = await kept.take(1.0)
    closing = asyncio.create_task(kept.close(5.0))
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await kept.take(1.0)
    assert await taken.fetchval("SELECT 1") == 1
    kept.give_back(taken)
    await closing
    assert taken.is_closed()

    stuck = Kept(shared_dsn)
    connection = await stuck.take(1.0)
    with pytest.raises(TimeoutError):
        await stuck.close(0.02)
    assert connection.is_closed()
