"""Bounds in time for work that is nearly always done at once.

A timer for each part of a request would cost a sixth of its processor time, so one is set only for
work that waits for something.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return what work returns, or raise `TimeoutError` when it takes too long; None: no bound.

    What is done before it waits for the first time takes no turn of the event loop and no timer.
    """
    if seconds is None:
        return await work
    try:
        awaited = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _gone_on(work, awaited)


@coroutine
def _gone_on(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Go on with work that has begun and waits: `await` begins at the beginning only."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - it is the work's, whatever it is
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration as done:
        result: T = done.value
        return result
