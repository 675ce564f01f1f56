"""Mainspring: `mainspring worker --app app:app`, many tasks by `noop.submit_many`."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import probe

from mainspring import Mainspring, TaskContext
from mainspring.domain.errors import MainspringError
from mainspring.domain.task import NewTask

app = Mainspring()
BATCH = 10_000
TICK_SECONDS = 0.02
LATER_SECONDS = 60
IN_FLIGHT = 20


@app.task("noop")
async def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


@app.task("mark")
async def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


@app.task("flaky")
async def flaky(ctx: TaskContext, payload: dict[str, Any], number: int, due: float) -> None:
    del payload, number, due
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt does not get through")
    probe.hit()


@app.task("slow")
async def slow(number: int, seconds: float) -> None:
    probe.started(number)
    await asyncio.sleep(seconds)
    probe.ended(number)


class Client:
    async def open(self) -> None:
        await app.sessions.current()

    async def close(self) -> None:
        await app.close()

    async def one(self) -> None:
        await noop.submit(payload=probe.PAYLOAD)

    async def bulk(self, count: int) -> None:
        await noop.submit_many({"payload": probe.PAYLOAD} for _ in range(count))

    async def schedule(self, items: list[tuple[int, float]]) -> None:
        for start in range(0, len(items), BATCH):
            await app.submit_many(
                [
                    mark.options(at=datetime.fromtimestamp(due, UTC)).build(
                        payload=probe.PAYLOAD, number=number, due=due
                    )
                    for number, due in items[start : start + BATCH]
                ]
            )

    async def slow(self, numbers: list[int], seconds: float) -> None:
        await app.submit_many([slow.build(number=number, seconds=seconds) for number in numbers])

    async def sustain(
        self, rate: float, seconds: float, first: int, *, mixed: bool
    ) -> tuple[int, int]:
        """Submit so many tasks a second; how many were stored, and how many perhaps not.

        Mixed: of 20 tasks one fails at first and is retried, five are due within a minute, the
        others at once. What is not taken in time is made up for in larger batches.
        """
        started, sent = time.time(), 0
        stored = unsure = 0

        async def submit(tasks: list[NewTask]) -> None:
            nonlocal stored, unsure
            try:
                await app.submit_many(tasks)
            except MainspringError:
                unsure += len(tasks)
            else:
                stored += len(tasks)

        flights: set[asyncio.Task[None]] = set()
        while (elapsed := time.time() - started) < seconds:
            due = min(int(rate * elapsed) - sent, BATCH)
            if due > 0:
                built = [task_at(first + sent + one, mixed=mixed) for one in range(due)]
                sent += due
                flights.add(asyncio.create_task(submit(built)))
            while len(flights) > IN_FLIGHT:
                _, flights = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
            flights = {flight for flight in flights if not flight.done()}
            await asyncio.sleep(TICK_SECONDS)
        await asyncio.gather(*flights)
        return stored, unsure


def task_at(number: int, *, mixed: bool) -> NewTask:
    """Return the task with this number of a sustained run, and note when it is due."""
    kind = number % 20 if mixed else 19
    delay = number * 7919 % LATER_SECONDS + 1.0 if 1 <= kind <= 5 else 0.0
    due = time.time() + delay
    probe.due(number, due)
    handler = flaky if kind == 0 else mark
    call = handler.options(at=datetime.fromtimestamp(due, UTC) if delay else None)
    return call.build(payload=probe.PAYLOAD, number=number, due=due)
