"""Every coordination: who is alive, and who holds which partition."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from mainspring.adapters.etcd.client import EtcdOptions
from mainspring.adapters.etcd.coordination import EtcdCoordination
from mainspring.adapters.memory.coordination import MemoryCoordination
from mainspring.adapters.postgres.coordination import PostgresCoordination
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.system import SystemClock
from mainspring.domain.ids import PARTITIONS
from mainspring.ports.coordination import Coordination, Session, View
from manual_clock import ManualClock

TTL_SECONDS = 2.0
ALL = frozenset(range(PARTITIONS))


class Meeting:
    """Coordinations of several processes that meet, and a way to outlast a session."""

    def __init__(
        self,
        opener: Callable[[], Coordination],
        clock: ManualClock,
        outlast: Callable[[], Awaitable[None]],
    ) -> None:
        self.clock = clock
        self._opener = opener
        self._opened: dict[str, Coordination] = {}
        self.outlast = outlast

    async def join(self, member: str) -> Session:
        if member not in self._opened:
            self._opened[member] = self._opener()
        return await self._opened[member].join(member, TTL_SECONDS)

    async def close(self) -> None:
        for coordination in self._opened.values():
            await coordination.close()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres), "etcd"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Any:
    names = {"memory": "kind", "postgres": "shared_database", "etcd": "etcd_server"}
    return request.getfixturevalue(names[kind])


@pytest.fixture
async def meeting(kind: str, server: Any, etcd_prefix: str) -> AsyncIterator[Meeting]:
    clock = ManualClock()

    async def pass_by() -> None:
        clock.advance(TTL_SECONDS + 0.1)

    if kind == "memory":
        memory = MemoryCoordination(clock)
        meeting = Meeting(lambda: memory, clock, pass_by)
    elif kind == "postgres":
        connection = await asyncpg.connect(server)
        await connection.execute("TRUNCATE mainspring.members, mainspring.partition_keys")
        await connection.close()
        options = PoolOptions(dsn=server)
        meeting = Meeting(
            lambda: PostgresCoordination(options, SystemClock(), now=clock.now), clock, pass_by
        )
    else:
        etcd = EtcdOptions(endpoints=(server.endpoint,))

        async def revoke() -> None:
            leases = server.ctl("lease", "list").splitlines()[1:]
            for lease in leases:
                if f"{etcd_prefix}/" in server.ctl("lease", "timetolive", "--keys", lease):
                    server.ctl("lease", "revoke", lease)

        meeting = Meeting(lambda: EtcdCoordination(etcd, etcd_prefix, SystemClock()), clock, revoke)
    yield meeting
    await meeting.close()


async def test_members_see_each_other(meeting: Meeting) -> None:
    one, two = await meeting.join("one"), await meeting.join("two")
    for session in (one, two):
        view = await session.view()
        assert view.members == {"one", "two"}
        assert view.holders == {}
        assert session.ttl_seconds >= TTL_SECONDS


async def test_a_key_is_held_by_one(meeting: Meeting) -> None:
    one, two = await meeting.join("one"), await meeting.join("two")
    assert await one.acquire({1, 2, 3}) == {1, 2, 3}
    assert await two.acquire({3, 4}) == {4}
    assert await two.acquire(frozenset()) == frozenset()
    assert (await two.view()).holders == {1: "one", 2: "one", 3: "one", 4: "two"}


async def test_acquiring_again_after_a_lost_answer(meeting: Meeting) -> None:
    one = await meeting.join("one")
    assert await one.acquire({5}) == {5}
    assert await one.acquire({5, 6}) == {5, 6}


async def test_only_the_holder_releases(meeting: Meeting) -> None:
    one, two = await meeting.join("one"), await meeting.join("two")
    await one.acquire({1, 2})
    await two.release({1, 2, 9})
    assert await two.acquire({1, 2}) == frozenset()
    await one.release({1})
    await one.release({1})
    assert await two.acquire({1, 2}) == {1}


async def test_whoever_leaves_gives_everything_back_at_once(meeting: Meeting) -> None:
    one, two = await meeting.join("one"), await meeting.join("two")
    await one.acquire({1, 2})
    await one.leave()
    await one.leave()
    assert await two.view() == View(frozenset({"two"}), {})
    assert await two.acquire({1, 2}) == {1, 2}
    assert not await one.renew()


async def test_a_session_that_is_over_stays_over_and_its_keys_are_free(meeting: Meeting) -> None:
    one = await meeting.join("one")
    await one.acquire({1, 2})
    assert await one.renew()
    await meeting.outlast()
    two = await meeting.join("two")
    assert await two.view() == View(frozenset({"two"}), {})
    assert await two.acquire({1}) == {1}
    assert not await one.renew()
    assert await one.acquire({2}) == frozenset()
    await one.release({1})
    assert (await two.view()).holders == {1: "two"}


async def test_a_member_whose_session_is_over_joins_again(meeting: Meeting) -> None:
    one = await meeting.join("one")
    await one.acquire({1})
    await meeting.outlast()
    again = await meeting.join("one")
    assert await again.acquire({1, 2}) == {1, 2}
    assert await again.view() == View(frozenset({"one"}), {1: "one", 2: "one"})


async def test_joining_again_while_an_answer_was_lost(meeting: Meeting) -> None:
    """The earlier session may still be there; what it holds is in the way at most."""
    await meeting.join("one")
    again = await meeting.join("one")
    assert (await again.view()).members == {"one"}
    assert await again.acquire({1}) == {1}
    assert await again.renew()


async def test_many_at_once_and_every_key_has_one_holder(meeting: Meeting) -> None:
    sessions = [await meeting.join(f"m{number}") for number in range(4)]
    won = await asyncio.gather(*(session.acquire(ALL) for session in sessions))
    assert sum(len(one) for one in won) == PARTITIONS
    assert frozenset().union(*won) == ALL
    holders = (await sessions[0].view()).holders
    assert holders == {key: f"m{n}" for n, keys in enumerate(won) for key in keys}


@pytest.mark.parametrize("act", ["join", "acquire", "release", "leave"])
async def test_a_change_is_noticed_soon(meeting: Meeting, act: str, kind: str) -> None:
    one, two = await meeting.join("one"), await meeting.join("two")
    await two.acquire({1})
    before = await one.view()

    async def notice() -> None:
        while await one.view() == before:
            await one.changed(10.0)

    noticing = asyncio.create_task(notice())
    await asyncio.sleep(0)
    match act:
        case "join":
            await meeting.join("three")
        case "acquire":
            await two.acquire({2})
        case "release":
            await two.release({1})
        case _:
            await two.leave()
    async with asyncio.timeout(1.0 if kind == "postgres" else 0.5):
        await noticing


async def test_waiting_for_a_change_ends_at_its_time(meeting: Meeting) -> None:
    one = await meeting.join("one")
    async with asyncio.timeout(1.0):
        for _ in range(2):
            waiting = asyncio.create_task(one.changed(0.05))
            for _ in range(5):
                await asyncio.sleep(0)
            meeting.clock.advance(0.05)
            await waiting
