"""Storing tasks while they are made.

Making a task costs about as much as storing it, and the store is elsewhere: so a batch is on its
way while the next one is made. Others on the event loop have their turn in between.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from mainspring.core.group_commit import BATCH_TASKS
from mainspring.core.routed_commits import Commits
from mainspring.domain.task import NewTask, Submission

AHEAD_BATCHES: Final = 4
"""So many batches may be under way or wait for it; the next one is made when one is done."""

TURN_TASKS: Final = 100
"""After so many tasks the event loop has a turn: what is ready is sent, and answers are read."""

Answers = list[Submission | BaseException]


async def commit_while_made(
    commits: Commits, tasks: Iterable[NewTask], timeout: float | None, *, first: bool
) -> tuple[Answers, Exception | None]:
    """Store tasks in batches while they are made, and answer for each in order.

    When making one fails, its batch is not sent, and the error is returned with the answers for
    the batches before.
    """
    loop = asyncio.get_running_loop()
    source = iter(tasks)
    flights: list[asyncio.Task[Answers]] = []
    failure: Exception | None = None
    try:
        while failure is None:
            batch, failure = await _next_batch(source)
            if not batch:
                break
            sending = commits.submit_many(batch, timeout, first=first)
            flights.append(loop.create_task(sending))
            await _until_few(flights)
        parts = await asyncio.gather(*flights)
    finally:
        # Whoever is interrupted leaves nothing behind that nobody waits for.
        for flight in flights:
            flight.cancel()
    return [answer for part in parts for answer in part], failure


async def _next_batch(source: Iterator[NewTask]) -> tuple[list[NewTask], Exception | None]:
    batch: list[NewTask] = []
    try:
        while len(batch) < BATCH_TASKS:
            part = list(islice(source, TURN_TASKS))
            batch += part
            if len(part) < TURN_TASKS:
                break
            await _turn()
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller hears of it at the end
        return [], error
    return batch, None


async def _turn() -> None:
    """Return in the next turn of the event loop."""
    next_turn = asyncio.Event()
    asyncio.get_running_loop().call_soon(next_turn.set)
    await next_turn.wait()


async def _until_few(flights: list["asyncio.Task[Answers]"]) -> None:
    while len(under_way := [one for one in flights if not one.done()]) >= AHEAD_BATCHES:
        await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
