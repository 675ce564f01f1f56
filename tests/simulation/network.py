"""Processes and the network between them and the store, with everything that goes wrong there."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, Protocol

from mainspring.domain.errors import OutcomeUnknown, StoreUnavailable
from mainspring.ports.hooks import HookPoint
from mainspring.ports.parts import Undivided
from mainspring.ports.store import Store, Wakeups

START = datetime(2026, 5, 12, 15, 0, tzinfo=UTC)


ANSWER_DELAYED = 0.3
"""The share of answers that take time; for the others the way there is the whole delay."""


class Fate(Enum):
    """What becomes of one call."""

    FINE = auto()
    LOST_BEFORE = auto()
    LOST_AFTER = auto()
    TWICE = auto()
    LATE = auto()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store by a process."""

    process: str
    name: str
    arguments: tuple[Any, ...]
    fate: Fate
    named: dict[str, Any] = field(default_factory=dict)


CURRENT: ContextVar[Call | None] = ContextVar("CURRENT", default=None)


class Watcher(Protocol):
    """Is told what the store answered, before the answer may get lost."""

    def answered(self, call: Call, answer: Any) -> None: ...


class StoreClock:
    """The clock of the store: virtual time, never skewed."""

    def now(self) -> datetime:
        return START + timedelta(seconds=round(self.monotonic(), 6))

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FaultyHooks:
    """Loses the connection at the named points of the calls whose fate it is."""

    async def reach(self, point: HookPoint) -> None:
        call = CURRENT.get()
        if call is None:
            return
        before = point is HookPoint.SETTLE_BEFORE_COMMIT
        if call.fate is (Fate.LOST_BEFORE if before else Fate.LOST_AFTER):
            raise OutcomeUnknown("the connection was lost")


@dataclass(slots=True)
class Weather:
    """How bad the network is now."""

    chance: random.Random
    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    is_down: bool = False

    def fate(self) -> Fate:
        drawn = self.chance.random()
        for fate, share in (
            (Fate.LOST_BEFORE, self.lost / 2),
            (Fate.LOST_AFTER, self.lost / 2),
            (Fate.TWICE, self.twice),
            (Fate.LATE, self.late),
        ):
            if drawn < share:
                return fate
            drawn -= share
        return Fate.FINE


@dataclass(eq=False)
class Process:
    """A process that may be killed, stopped for a while, and told a wrong time."""

    name: str
    chance: random.Random
    skew_seconds: float = 0.0
    faults: list[tuple[str, BaseException]] = field(default_factory=list)
    is_dead: bool = False
    stopped_until: float = 0.0
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def start(self, part: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something in this process."""
        self._tasks = [task for task in self._tasks if not task.done()]
        task = asyncio.create_task(part, name=self.name)
        self._tasks.append(task)
        task.add_done_callback(self._look)
        return task

    def _look(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.faults.append((self.name, error))

    def kill(self) -> None:
        """End as by kill -9: nothing that it would still do has any effect."""
        self.is_dead = True
        for task in self._tasks:
            task.cancel()

    def stop(self, seconds: float) -> None:
        """Stand still as by SIGSTOP."""
        self.stopped_until = max(self.stopped_until, asyncio.get_running_loop().time() + seconds)

    async def awake(self) -> None:
        """Wait while the process is stopped; end here if it is dead."""
        while self.stopped_until:
            left = self.stopped_until - asyncio.get_running_loop().time()
            if left <= 0:
                self.stopped_until = 0.0
                break
            await asyncio.sleep(left)
        if self.is_dead:
            raise asyncio.CancelledError

    def now(self) -> datetime:
        return StoreClock().now() + timedelta(seconds=self.skew_seconds)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.is_dead or self.stopped_until:
            await self.awake()

    def random(self) -> float:
        return self.chance.random()


class Connection(Undivided):
    """The store as one process reaches it: `ports.store.Store` over a bad network."""

    def __init__(self, store: Store, process: Process, weather: Weather, watcher: Watcher) -> None:
        self._store = store
        self._process = process
        self._weather = weather
        self._watcher = watcher

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, arguments, named)

        return call

    def wakeups(self) -> Wakeups:
        return self._store.wakeups()

    async def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        process, weather = self._process, self._weather
        await process.awake()
        if weather.is_down:
            await process.sleep(weather.chance.uniform(0.01, 0.3))
            raise StoreUnavailable("the store is down")
        call = Call(process.name, name, arguments, weather.fate(), named)
        await asyncio.sleep(weather.chance.uniform(0.0005, 0.01))
        if call.fate is Fate.LOST_BEFORE and name != "settle":
            await process.awake()
            raise OutcomeUnknown("the connection was lost")
        if call.fate is Fate.LATE:
            # Held up on its way, the message arrives when its sender may be long dead.
            answer = await asyncio.shield(asyncio.create_task(self._deliver_late(call)))
        else:
            answer = await self._deliver(call)
        if weather.chance.random() < ANSWER_DELAYED:
            await asyncio.sleep(weather.chance.uniform(0.0005, 0.01))
        await process.awake()
        if call.fate is Fate.LOST_AFTER:
            raise OutcomeUnknown("the connection was lost")
        return answer

    async def _deliver_late(self, call: Call) -> Any:
        await asyncio.sleep(self._weather.chance.uniform(1.0, 15.0))
        return await self._deliver(call)

    async def _deliver(self, call: Call) -> Any:
        answer: Any = None
        for _ in range(2 if call.fate is Fate.TWICE else 1):
            token = CURRENT.set(call)
            try:
                answer = await getattr(self._store, call.name)(*call.arguments, **call.named)
            finally:
                CURRENT.reset(token)
            self._watcher.answered(call, answer)
        return answer
