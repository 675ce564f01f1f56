"""Locks as their port promises them: in this process, in Redis and in a cluster of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fixtures.valkey import ValkeyCluster, ValkeyServer
from mainspring.adapters.memory.locks import MemoryLocks
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.ports.locks import Grant, Locks, LocksUnavailable, Refusal
from mainspring.wiring.redis import redis_locks

LONG = 60.0
SHORT = 0.1


@pytest.fixture(params=["memory", "redis", "cluster"])
async def locks(request: pytest.FixtureRequest, valkey_prefix: str) -> AsyncIterator[Locks]:
    opened: Locks = MemoryLocks(SystemClock())
    if request.param != "memory":
        name = "valkey_server" if request.param == "redis" else "valkey_cluster"
        server: ValkeyServer | ValkeyCluster = request.getfixturevalue(name)
        opened = redis_locks(Settings(redis_url=server.url, redis_prefix=valkey_prefix))
    yield opened
    await opened.close()


async def granted(locks: Locks, name: str, owner: str, seconds: float = LONG) -> int:
    answer = await locks.acquire(name, owner, seconds)
    assert isinstance(answer, Grant), answer
    return answer.number


async def test_a_lock_has_one_owner(locks: Locks) -> None:
    number = await granted(locks, "a", "one")
    refusal = await locks.acquire("a", "two", LONG)
    assert isinstance(refusal, Refusal)
    assert LONG - 5 < refusal.seconds <= LONG
    assert await granted(locks, "a", "one") == number
    assert await granted(locks, "b", "two") > 0


async def test_of_many_who_ask_at_once_one_gets_it(locks: Locks) -> None:
    answers = await asyncio.gather(*(locks.acquire("a", f"{n}", LONG) for n in range(20)))
    assert sum(isinstance(answer, Grant) for answer in answers) == 1


async def test_only_the_owner_extends_and_releases(locks: Locks) -> None:
    await granted(locks, "a", "one")
    assert not await locks.extend("a", "two", LONG)
    assert not await locks.release("a", "two")
    assert isinstance(await locks.acquire("a", "two", LONG), Refusal)
    assert await locks.extend("a", "one", 2 * LONG)
    refusal = await locks.acquire("a", "two", LONG)
    assert isinstance(refusal, Refusal)
    assert refusal.seconds > LONG
    assert await locks.release("a", "one")
    assert not await locks.release("a", "one")
    assert not await locks.extend("a", "one", LONG)
    await granted(locks, "a", "two")


async def test_a_lock_ends_by_itself_and_then_is_nobodys(locks: Locks) -> None:
    first = await granted(locks, "a", "one", SHORT)
    await asyncio.sleep(2 * SHORT)
    assert not await locks.extend("a", "one", LONG)
    assert not await locks.release("a", "one")
    assert await granted(locks, "a", "two") > first
    assert not await locks.release("a", "one")
    assert isinstance(await locks.acquire("a", "one", LONG), Refusal)


async def test_every_grant_has_a_higher_number(locks: Locks) -> None:
    numbers = []
    for turn in range(50):
        numbers.append(await granted(locks, "a", f"{turn}"))
        assert await locks.release("a", f"{turn}")
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("name", ["{a}b", "}{", "two words", "ü:*[?]"])
async def test_names_are_only_names(locks: Locks, name: str) -> None:
    await granted(locks, name, "one")
    assert isinstance(await locks.acquire(name, "two", LONG), Refusal)
    assert await locks.release(name, "one")


async def test_locks_that_cannot_be_asked_say_so(own_valkey: ValkeyServer) -> None:
    locks = redis_locks(Settings(redis_url=own_valkey.url))
    await granted(locks, "a", "one")
    own_valkey.kill()
    for call in (
        locks.acquire("a", "one", LONG),
        locks.extend("a", "one", LONG),
        locks.release("a", "one"),
    ):
        with pytest.raises(LocksUnavailable, match="locks cannot be used"):
            await call
    await locks.close()


async def test_numbers_rise_although_the_server_forgot_them(own_valkey: ValkeyServer) -> None:
    locks = redis_locks(Settings(redis_url=own_valkey.url))
    before = await granted(locks, "a", "one")
    own_valkey.ask("FLUSHALL")
    assert await granted(locks, "a", "two") > before
    await locks.close()


async def test_a_lock_is_found_while_its_slot_is_moved(
    valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    """What is still on the old node is asked there, what is not is made on the new one."""
    locks = redis_locks(Settings(redis_url=valkey_cluster.url, redis_prefix=valkey_prefix))
    key = f"{valkey_prefix}:lock:"
    old = valkey_cluster.node_of(f"{key}{{x}}1")
    new = next(node for node in valkey_cluster.nodes if node is not old)
    slot = old.ask("CLUSTER", "KEYSLOT", f"{key}{{x}}1")[1:].strip()
    names = {node: node.ask("CLUSTER", "MYID").split("\r\n")[1] for node in (old, new)}
    await granted(locks, "{x}1", "one")
    new.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[old])
    old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[new])
    try:
        assert isinstance(await locks.acquire("{x}1", "two", LONG), Refusal)
        await granted(locks, "{x}2", "one")
        assert isinstance(await locks.acquire("{x}2", "two", LONG), Refusal)
        assert await locks.release("{x}2", "one")
        assert await locks.extend("{x}1", "one", LONG)
    finally:
        for name in ("1", "2"):
            old.ask("MIGRATE", "127.0.0.1", str(new.port), f"{key}{{x}}{name}", "0", "1000")
        for node in (new, old):
            assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[new]) == "+OK\r\n"
    assert isinstance(await locks.acquire("{x}1", "two", LONG), Refusal)
    assert await locks.release("{x}1", "one")
    await locks.close()
