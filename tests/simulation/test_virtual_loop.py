import asyncio
import time

import pytest

from simulation.virtual_loop import StandstillError, run_virtual


def test_a_day_of_waiting_takes_no_time() -> None:
    async def day() -> float:
        await asyncio.sleep(86400)
        return asyncio.get_running_loop().time()

    started = time.perf_counter()
    assert run_virtual(day()) == pytest.approx(86400)
    assert time.perf_counter() - started < 5


def test_timers_fire_in_the_order_of_their_time() -> None:
    async def main() -> list[float]:
        fired: list[float] = []

        async def wait(seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(wait(seconds) for seconds in (3.0, 1.0, 2.0, 1.0)))
        return fired

    assert run_virtual(main()) == pytest.approx([1.0, 1.0, 2.0, 3.0])


def test_timeouts_are_virtual() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(50)


def test_a_standstill_is_no_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        run_virtual(main())
