import asyncio
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from mainspring.core.waiting import PAUSE_SECONDS_MAX, Waiting
from mainspring.domain.errors import (
    MainspringError,
    MigrationNeeded,
    StoreUnavailable,
    WaitTimedOut,
)
from mainspring.domain.status import TaskStatus
from manual_clock import ManualClock


class Statuses:
    """The statuses of some tasks, and how often they were asked for."""

    def __init__(self) -> None:
        self.known: dict[UUID, TaskStatus] = {}
        self.asked: list[int] = []
        self.is_down = False
        self.refusal: MainspringError | None = None

    async def statuses(self, ids: Sequence[UUID]) -> dict[UUID, TaskStatus]:
        self.asked.append(len(ids))
        if self.is_down:
            raise StoreUnavailable("down")
        if self.refusal is not None:
            raise self.refusal
        return {one: self.known[one] for one in ids if one in self.known}


@pytest.fixture
def statuses() -> Statuses:
    return Statuses()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def waiting(statuses: Statuses, clock: ManualClock) -> Waiting:
    return Waiting(statuses, clock)  # type: ignore[arg-type]


async def test_all_waiters_share_one_question(
    waiting: Waiting, statuses: Statuses, clock: ManualClock
) -> None:
    ids = [uuid4() for _ in range(100)]
    waiters = [asyncio.create_task(waiting.wait(one)) for one in ids]
    await clock.sleeping()
    statuses.known = dict.fromkeys(ids, TaskStatus.COMPLETED)
    clock.advance(1)
    assert await asyncio.gather(*waiters) == [TaskStatus.COMPLETED] * 100
    assert statuses.asked == [100]


async def test_it_looks_ever_less_often(
    waiting: Waiting, statuses: Statuses, clock: ManualClock
) -> None:
    one = uuid4()
    waiter = asyncio.create_task(waiting.wait(one))
    for _ in range(15):
        await clock.sleeping()
        clock.advance(1)
    assert clock.slept[0] == 0.01
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == PAUSE_SECONDS_MAX
    await clock.sleeping()
    statuses.known = {one: TaskStatus.FAILED}
    clock.advance(1)
    assert await waiter is TaskStatus.FAILED


async def test_a_task_that_is_not_there_yet_is_waited_for(
    waiting: Waiting, statuses: Statuses, clock: ManualClock
) -> None:
    one = uuid4()
    waiter = asyncio.create_task(waiting.wait(one))
    await clock.sleeping()
    clock.advance(1)
    await clock.sleeping()
    statuses.known = {one: TaskStatus.CANCELLED}
    clock.advance(1)
    assert await waiter is TaskStatus.CANCELLED


async def test_patience_ends(waiting: Waiting) -> None:
    one = uuid4()
    with pytest.raises(WaitTimedOut, match=str(one)):
        await waiting.wait(one, timeout=0.01)
    await waiting.close()


async def test_an_outage_is_survived_and_named_at_the_end(
    waiting: Waiting, statuses: Statuses, clock: ManualClock
) -> None:
    statuses.is_down = True
    one = uuid4()
    waiter = asyncio.create_task(waiting.wait(one, timeout=0.1))
    await clock.sleeping()
    clock.advance(1)
    with pytest.raises(StoreUnavailable, match="down"):
        await waiter
    await waiting.close()


async def test_closing_tells_those_who_wait(waiting: Waiting, clock: ManualClock) -> None:
    waiter = asyncio.create_task(waiting.wait(uuid4()))
    await clock.sleeping()
    await waiting.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiter


async def test_an_error_that_does_not_pass_by_itself_reaches_everyone(
    waiting: Waiting, statuses: Statuses, clock: ManualClock
) -> None:
    statuses.refusal = MigrationNeeded("there is no schema")
    waiters = [asyncio.create_task(waiting.wait(uuid4())) for _ in range(3)]
    await clock.sleeping()
    clock.advance(1)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*waiters, return_exceptions=True)
    assert [type(answer) for answer in answers] == [MigrationNeeded] * 3
    statuses.refusal = None
    one = uuid4()
    statuses.known = {one: TaskStatus.COMPLETED}
    waiter = asyncio.create_task(waiting.wait(one))
    await clock.sleeping()
    clock.advance(1)
    assert await waiter is TaskStatus.COMPLETED
