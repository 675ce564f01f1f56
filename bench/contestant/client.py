"""The submitting process of a contestant. Reads one JSON command a line and answers each.

Started in the contestant's environment with its folder on the Python path. The module `app` there
has a class `Client` with `one`, `schedule` and `slow`, and, where the product has them, `set_up`,
`open`, `close`, `bulk` and `future`; any of them may be a coroutine function.
"""

import asyncio
import inspect
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

BULK_CALLERS = 50
"""Callers at a time where there is no way to submit many tasks in one call."""


async def settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Driver:
    """Turns commands into calls of the contestant's client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.is_async = inspect.iscoroutinefunction(client.one)

    async def single(self, count: int) -> None:
        """One caller, each submission awaited before the next."""
        one: Callable[[], Any] = self.client.one
        if self.is_async:
            for _ in range(count):
                await one()
        else:
            for _ in range(count):
                one()

    async def concurrent(self, count: int, callers: int) -> None:
        """Many callers at a time, each submitting one task after the other."""
        one: Callable[[], Any] = self.client.one
        share = count // callers
        if self.is_async:
            await asyncio.gather(*(self.single(share) for _ in range(callers)))
            return
        with ThreadPoolExecutor(callers) as pool:
            done = [pool.submit(_repeat, one, share) for _ in range(callers)]
            for each in done:
                each.result()

    async def bulk(self, count: int) -> None:
        """The product's own way for many tasks, or the best there is."""
        if hasattr(self.client, "bulk"):
            await settled(self.client.bulk(count))
        elif self.is_async:
            await self.concurrent(count, BULK_CALLERS)
        else:
            await self.single(count)

    async def schedule(self, count: int, lead: float, seconds: float) -> None:
        """Tasks due evenly over so many seconds, the first of them in `lead` seconds."""
        first = time.time() + lead
        items = [(number, first + seconds * number / count) for number in range(count)]
        await settled(self.client.schedule(items))

    async def future(self, count: int) -> None:
        """Tasks due in a day and later."""
        due = time.time() + 86_400
        if hasattr(self.client, "future"):
            await settled(self.client.future(count, due))
        else:
            await settled(self.client.schedule([(n, due + n % 3600) for n in range(count)]))

    async def sustain(self, rate: float, seconds: float, first: int, mixed: bool) -> Any:  # noqa: FBT001
        """Tasks at a steady rate; how many were stored, and how many perhaps not."""
        return await self.client.sustain(rate, seconds, first, mixed=mixed)

    async def slow(self, count: int, seconds: float) -> None:
        await settled(self.client.slow(list(range(count)), seconds))


def _repeat(work: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        work()


async def serve() -> None:
    client = import_module("app").Client()
    if sys.argv[1:] == ["set-up"]:
        await settled(client.set_up())
        return
    if hasattr(client, "open"):
        await settled(client.open())
    driver = Driver(client)
    say({"ready": True})
    for line in iter(sys.stdin.readline, ""):
        command, *arguments = json.loads(line)
        started, cpu = time.time(), time.process_time()
        answer = await getattr(driver, command)(*arguments)
        seconds = time.time() - started
        used = time.process_time() - cpu
        say({"started": started, "seconds": seconds, "cpu": used, "answer": answer})
    if hasattr(client, "close"):
        await settled(client.close())


def say(answer: dict[str, Any]) -> None:
    # Whatever the product itself writes to standard output is not taken for an answer.
    sys.stdout.write(f"\n@{json.dumps(answer)}\n")
    sys.stdout.flush()


def main() -> None:
    try:
        run = import_module("uvloop").run
    except ImportError:
        run = asyncio.run
    run(serve())


if __name__ == "__main__":
    main()
