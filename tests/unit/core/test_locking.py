"""Locks of handlers: waited for, kept for as long as the block runs, and lost in time."""

import asyncio

import pytest

from mainspring.adapters.memory.locks import MemoryLocks
from mainspring.adapters.system import SystemClock
from mainspring.core.locking import Locker
from mainspring.domain.errors import InvalidValue
from mainspring.ports.locks import Grant, LockHeld, LockLost, LocksUnavailable, Refusal

TTL = 0.3


class Flaky(MemoryLocks):
    """Locks that can be away."""

    is_away = False

    async def acquire(self, name: str, owner: str, seconds: float) -> Grant | Refusal:
        self._look()
        return await super().acquire(name, owner, seconds)

    async def extend(self, name: str, owner: str, seconds: float) -> bool:
        self._look()
        return await super().extend(name, owner, seconds)

    async def release(self, name: str, owner: str) -> bool:
        self._look()
        return await super().release(name, owner)

    def _look(self) -> None:
        if self.is_away:
            raise LocksUnavailable("away")


@pytest.fixture
def locks() -> Flaky:
    return Flaky(SystemClock())


@pytest.fixture
def locker(locks: Flaky) -> Locker:
    return Locker(locks, SystemClock(), "here")


async def test_blocks_come_one_after_the_other(locker: Locker) -> None:
    inside: list[int] = []
    numbers: list[int] = []

    async def work(turn: int) -> None:
        async with locker.lock("a", TTL, None) as lock:
            assert inside == []
            inside.append(turn)
            numbers.append(lock.number)
            await asyncio.sleep(0.01)
            inside.remove(turn)

    await asyncio.gather(*map(work, range(4)))
    assert numbers == sorted(set(numbers))
    async with locker.lock("a", TTL, 0), locker.lock("b", TTL, 0):
        pass


async def test_who_does_not_want_to_wait_is_told(locker: Locker) -> None:
    async with locker.lock("a", TTL, None):
        for wait in (0, 0.05):
            with pytest.raises(LockHeld, match="'a' is held by somebody else") as caught:
                async with locker.lock("a", TTL, wait):
                    pass
            assert 0 < caught.value.seconds <= TTL


async def test_a_lock_is_kept_for_longer_than_it_lasts(locker: Locker) -> None:
    async with locker.lock("a", TTL, 0):
        await asyncio.sleep(2 * TTL)
        with pytest.raises(LockHeld):
            async with locker.lock("a", TTL, 0):
                pass
    async with locker.lock("a", TTL, 0):
        pass


async def test_a_block_whose_lock_somebody_else_has_is_interrupted(
    locker: Locker, locks: Flaky
) -> None:
    async def work() -> None:
        async with locker.lock("a", TTL, 0):
            locks._locks.clear()
            assert isinstance(await locks.acquire("name:a", "other", 60), Grant)
            await asyncio.sleep(60)

    with pytest.raises(LockLost, match="'a' could not be kept"):
        await work()
    assert isinstance(await locks.acquire("name:a", "third", 60), Refusal)


async def test_a_block_whose_lock_cannot_be_extended_ends_before_the_lock(
    locker: Locker, locks: Flaky
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def work() -> None:
        async with locker.lock("a", TTL, 0):
            locks.is_away = True
            await asyncio.sleep(60)

    with pytest.raises(LockLost):
        await work()
    assert loop.time() - started < TTL


async def test_a_short_outage_is_survived(locker: Locker, locks: Flaky) -> None:
    async with locker.lock("a", TTL, 0):
        locks.is_away = True
        await asyncio.sleep(0.4 * TTL)
        locks.is_away = False
        await asyncio.sleep(2 * TTL)


async def test_without_locks_nothing_is_entered(locker: Locker, locks: Flaky) -> None:
    locks.is_away = True
    with pytest.raises(LocksUnavailable):
        async with locker.lock("a", TTL, None):
            raise AssertionError


async def test_the_errors_of_the_block_are_its_own(locker: Locker, locks: Flaky) -> None:
    for error in (ValueError, TimeoutError, asyncio.CancelledError):
        with pytest.raises(error):
            async with locker.lock("a", TTL, 0):
                raise error
        assert isinstance(await locks.acquire("name:a", "other", 60), Grant)
        await locks.release("name:a", "other")


@pytest.mark.parametrize(
    ("name", "ttl", "wait", "field"),
    [("", 1, None, "name"), ("a", 0, None, "ttl"), ("a", 3601, 0, "ttl"), ("a", 1, -1, "wait")],
)
def test_what_cannot_be_a_lock(
    locker: Locker, name: str, ttl: float, wait: float | None, field: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        locker.lock(name, ttl, wait)
    assert caught.value.field == field
