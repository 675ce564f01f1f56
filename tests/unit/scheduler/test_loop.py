import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.domain.errors import InvalidValue, StoreUnavailable
from mainspring.scheduler.loop import Interval, Loop
from manual_clock import ManualClock

EVERY_TEN = Interval(seconds=10.0, jitter=0.0, first_pause_seconds=1.0, longest_pause_seconds=4.0)


class NoChance:
    def random(self) -> float:
        return 0.0


class Duty:
    """Counts its rounds; fails as often as it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.rounds = 0
        self.failing = 0
        self.error = error or StoreUnavailable("no answer")

    async def run_once(self) -> int:
        self.rounds += 1
        if self.failing:
            self.failing -= 1
            raise self.error
        return 0


Passes = Callable[[float], Awaitable[int]]


@asynccontextmanager
async def repeating(
    duty: Duty, clock: ManualClock
) -> AsyncIterator[Callable[[float], Awaitable[int]]]:
    loop = Loop(clock, NoChance())
    running = asyncio.create_task(loop.repeat("duty", duty.run_once, EVERY_TEN))

    async def passes(seconds: float) -> int:
        """Let time pass and return the rounds that were done when all is quiet again."""
        await clock.sleeping()
        clock.advance(seconds)
        await clock.sleeping()
        return duty.rounds

    yield passes
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_the_first_round_is_done_at_once_and_the_next_after_the_interval() -> None:
    clock, duty = ManualClock(), Duty()
    async with repeating(duty, clock) as passes:
        assert await passes(9.9) == 1
        assert await passes(0.1) == 2
        assert await passes(10) == 3


async def test_an_outage_is_survived_with_growing_but_bounded_pauses() -> None:
    clock, duty = ManualClock(), Duty()
    duty.failing = 5
    async with repeating(duty, clock) as passes:
        for pause in (1, 2, 4, 4, 4, 10):
            await passes(pause)
        assert clock.slept == [1.0, 2.0, 4.0, 4.0, 4.0, 10.0, 10.0]
        assert duty.rounds == 7


async def test_an_outage_is_logged_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="mainspring.scheduler")
    clock, duty = ManualClock(), Duty()
    async with repeating(duty, clock) as passes:
        for failing in (3, 2):
            duty.failing = failing
            for _ in range(5):
                await passes(10)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"] * 2
    assert "duty waits for the task store: no answer" in caplog.text
    assert "duty goes on after 3 failed rounds" in caplog.text


async def test_a_fault_is_raised_and_ends_the_loop() -> None:
    clock, duty = ManualClock(), Duty(InvalidValue("wrong"))
    duty.failing = 1
    with pytest.raises(InvalidValue):
        await Loop(clock, NoChance()).repeat("duty", duty.run_once, EVERY_TEN)


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_always_bounded(failures: int, chance: float) -> None:
    interval = Interval(seconds=5.0)
    pause = interval.pause(failures, chance)
    if failures == 0:
        assert 5.0 <= pause <= 5.5
    else:
        assert 0.5 <= pause < 5.0
