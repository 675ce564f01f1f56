"""A user who submits tasks all the time, and what that user gets to see."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from tools.cluster.http import Broken, Http

LATER_SECONDS = 1.5
_LATER_EACH = 10
_AGAIN_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0


class Refused(Exception):
    """An API server refused what was asked of it."""


class Load:
    """Submits at an even rate through all API servers in turn.

    While `repeats` is off anything but an acknowledgement at the first attempt is an error that
    the user sees. While it is on, a submission is repeated under its key until it is acknowledged,
    as whoever must not lose a task has to.
    """

    def __init__(self, urls: Callable[[], Sequence[str]], key: str, rate: float) -> None:
        self.rate = rate
        self.repeats = False
        self.accepted: dict[str, float] = {}
        self.later: dict[str, datetime] = {}
        self.errors: list[str] = []
        self.repeated = 0
        self.slowest = 0.0
        self.began = time.monotonic()
        self._urls = urls
        self._turns = itertools.count()
        self._http = Http(key)
        self._under_way: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Submit until `end` is called, then wait for what is under way."""
        began = time.monotonic()
        for number in itertools.count():
            if self._ended.is_set():
                break
            task = asyncio.create_task(self._submit(number))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            await asyncio.sleep(max(0.0, began + (number + 1) / self.rate - time.monotonic()))
        while self._under_way:
            await asyncio.wait(self._under_way)

    def end(self) -> None:
        """Submit no more."""
        self._ended.set()

    async def call(self, method: str, path: str, value: object = None) -> Any:
        """Ask any API server; raises `Refused` when it refuses."""
        answer = await self._http.ask(method, f"{self._next()}{path}", value)
        if not answer.is_good:
            raise Refused(f"{method} {path} was answered {answer.status}: {answer.text}")
        return answer.value

    async def close(self) -> None:
        """Leave what is under way."""
        for task in self._under_way:
            task.cancel()
        await self._http.close()

    def _next(self) -> str:
        urls = self._urls()
        return urls[next(self._turns) % len(urls)]

    async def _submit(self, number: int) -> None:
        body: dict[str, Any] = {"task_type": "nap", "payload": {"seconds": 0.0}}
        at = None
        if number % _LATER_EACH == 0:
            at = datetime.now(UTC) + timedelta(seconds=LATER_SECONDS)
            body["scheduled_at"] = at.isoformat()
        elif number % _LATER_EACH == 1:
            # Some take a while, so that whoever is ended has something under way.
            body["payload"] = {"seconds": 0.5}
        if self.repeats:
            body["key"] = str(uuid4())
        end = time.monotonic() + _PATIENCE_SECONDS
        began = time.monotonic()
        while True:
            problem = await self._once(body, at)
            if problem is None:
                self.slowest = max(self.slowest, time.monotonic() - began)
                return
            if "key" not in body or time.monotonic() > end:
                self.errors.append(problem)
                return
            self.repeated += 1
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _once(self, body: dict[str, Any], at: datetime | None) -> str | None:
        try:
            answer = await self._http.ask("POST", f"{self._next()}/v1/tasks", body)
        except Broken as error:
            return str(error)
        if not answer.is_good:
            return f"{answer.status}: {answer.text[:200]}"
        task_id = answer.value["task_id"]
        self.accepted[task_id] = time.time()
        if at is not None:
            self.later[task_id] = at
        return None
