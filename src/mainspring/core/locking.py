"""Locks by name for handlers: held by a block of code, and kept for as long as it runs."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Final, Self

from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.values import check_key, check_seconds, shown
from mainspring.ports.clock import Clock
from mainspring.ports.locks import Grant, LockHeld, LockLost, Locks, LocksUnavailable

_LOGGER: Final = logging.getLogger("mainspring.task")

TTL_SECONDS: Final = 30.0
TTL_SECONDS_MAX: Final = 3600.0
_EXTENSIONS: Final = 3
_MARGIN_PARTS: Final = 10
_MARGIN_SECONDS_MAX: Final = 1.0
_POLL_SECONDS: Final = (0.05, 1.0)


class Locker:
    """Makes locks whose owners nobody else is; `series` is a text that no other process has."""

    def __init__(self, locks: Locks, clock: Clock, series: str) -> None:
        self._locks = locks
        self._clock = clock
        self._series = series
        self._numbers = count(1)

    def lock(self, name: str, ttl: float, wait: float | None) -> "NamedLock":
        """Return a lock that is taken by entering it."""
        return NamedLock(
            self._locks,
            self._clock,
            check_key(name, "name"),
            f"{self._series}-{next(self._numbers)}",
            check_seconds(ttl, "ttl", TTL_SECONDS_MAX),
            None if wait is None else check_seconds(wait, "wait", zero=True),
        )

    async def close(self) -> None:
        """Release connections, and no lock."""
        await self._locks.close()


class NamedLock:
    """A lock for one `async with` block, which interrupts the block when the lock is lost."""

    def __init__(
        self, locks: Locks, clock: Clock, name: str, owner: str, ttl: float, wait: float | None
    ) -> None:
        self._locks = locks
        self._clock = clock
        self._owner = owner
        self._ttl = ttl
        self._wait = wait
        self._margin = min(_MARGIN_SECONDS_MAX, ttl / _MARGIN_PARTS)
        self._guard = asyncio.timeout(None)
        self._keeping: asyncio.Task[None] | None = None
        self.name = name
        """What was locked."""

        self.number = 0
        """Rises with every grant of this lock. Store it beside what you write and refuse a lower
        one: a holder that stood still for longer than its lock lasted has a lower one."""

    async def __aenter__(self) -> Self:
        grant, until = await self._taken()
        self.number = grant.number
        self._guard = asyncio.timeout(until - self._clock.monotonic())
        await self._guard.__aenter__()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        try:
            await self._guard.__aexit__(kind, error, trace)
        except TimeoutError:
            message = (
                f"the lock {shown(self.name)} could not be kept for as long as its block took; "
                "undo what must not be done by two at once, and stop"
            )
            raise LockLost(message) from error
        finally:
            with suppress(LocksUnavailable):
                await self._locks.release(f"name:{self.name}", self._owner)

    async def _taken(self) -> tuple[Grant, float]:
        """Wait for the lock; returns the grant and until when it certainly lasts."""
        give_up = None if self._wait is None else self._clock.monotonic() + self._wait
        pause, longest = _POLL_SECONDS
        while True:
            sent = self._clock.monotonic()
            answer = await self._locks.acquire(f"name:{self.name}", self._owner, self._ttl)
            if isinstance(answer, Grant):
                return answer, sent + self._ttl - self._margin
            left = longest if give_up is None else give_up - self._clock.monotonic()
            if left <= 0:
                message = (
                    f"the lock {shown(self.name)} is held by somebody else, for "
                    f"{answer.seconds:.1f} s at most if it is not extended"
                )
                raise LockHeld(message, seconds=answer.seconds)
            await self._clock.sleep(min(pause, left, max(answer.seconds, 0.001)))
            pause = min(2 * pause, longest)

    async def _keep(self) -> None:
        pause = self._ttl / _EXTENSIONS
        while not self._guard.expired():
            await self._clock.sleep(pause)
            sent = self._clock.monotonic()
            try:
                is_ours = await self._locks.extend(f"name:{self.name}", self._owner, self._ttl)
            except LocksUnavailable as error:
                # It lasts for a while yet; the guard knows for how long.
                _LOGGER.warning("the lock %s could not be extended: %s", shown(self.name), error)
                pause = self._margin
                continue
            left = sent + self._ttl - self._margin - self._clock.monotonic() if is_ours else 0.0
            self._guard.reschedule(asyncio.get_running_loop().time() + left)
            pause = self._ttl / _EXTENSIONS


Lockers = Callable[[], Locker]
"""Returns what handlers of this process lock with; raises `InvalidConfiguration` without any."""


def no_locker() -> Locker:
    """Be `Lockers` where locks are kept nowhere."""
    message = "redis_url is empty; locks are kept in Redis, so set it for the workers"
    raise InvalidConfiguration(message, field="redis_url")
