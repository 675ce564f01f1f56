"""Work with a bound in time: the same as under `asyncio.timeout`, whenever it first waits."""

import asyncio

import pytest

from mainspring.core.patience import within


async def test_work_that_does_not_wait_is_done_at_once() -> None:
    async def work() -> int:
        return 1

    async def failing() -> int:
        raise KeyError("k")

    assert await within(5.0, work()) == 1
    assert await within(None, work()) == 1
    with pytest.raises(KeyError):
        await within(5.0, failing())


async def test_work_that_waits_is_gone_on_with() -> None:
    future = asyncio.get_running_loop().create_future()

    async def work() -> list[object]:
        seen: list[object] = [await future]
        try:
            await asyncio.gather(asyncio.sleep(0), _fail())
        except ValueError as error:
            seen.append(str(error))
        await asyncio.sleep(0)
        async with asyncio.timeout(5.0):
            await asyncio.sleep(0)
        return seen

    async def _fail() -> None:
        raise ValueError("no")

    asyncio.get_running_loop().call_soon(future.set_result, "first")
    assert await within(5.0, work()) == ["first", "no"]


async def test_the_first_wait_may_fail_or_end_in_time_out() -> None:
    loop = asyncio.get_running_loop()
    failed, never = loop.create_future(), loop.create_future()
    ended: list[str] = []

    async def work(future: asyncio.Future[None]) -> None:
        try:
            await future
        finally:
            ended.append("work")

    loop.call_soon(failed.set_exception, KeyError("k"))
    with pytest.raises(KeyError):
        await within(5.0, work(failed))
    with pytest.raises(TimeoutError):
        await within(0.01, work(never))
    assert never.cancelled()
    assert ended == ["work", "work"]


async def test_whoever_is_cancelled_cancels_the_work() -> None:
    started, never = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def work() -> None:
        started.set()
        await never

    running = asyncio.create_task(within(5.0, work()))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert never.cancelled()


async def test_work_may_catch_what_it_is_interrupted_with() -> None:
    never = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await never
        except KeyError:
            await asyncio.sleep(0)
            return "caught"
        return "not"

    asyncio.get_running_loop().call_soon(never.set_exception, KeyError("k"))
    assert await within(5.0, work()) == "caught"
