"""One shard, and whether it answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mainspring.domain.errors import (
    MainspringError,
    OutcomeUnknown,
    PartitionMoving,
    StoreBusy,
    StoreUnavailable,
)
from mainspring.domain.shards import ShardLabel
from mainspring.ports.clock import Clock
from mainspring.ports.whole import WholeStore

_LOGGER: Final = logging.getLogger("mainspring.shards")

T = TypeVar("T")
Check = Callable[[], Awaitable[object]]
Labelled = Callable[[], Awaitable[ShardLabel | None]]

PROBE_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
LABEL_SECONDS: Final = 2.0
LATELY_SECONDS: Final = 1.0
"""For so long after it is back a shard counts as missing: an answer that was put together without
it may be on its way."""


class Shard:
    """A store that is not asked again after it failed to answer, until a probe finds it well.

    So an outage costs its callers one time-out, not one for each call. ``name`` says which one it
    is to people; ``check`` is what the probe does (default: ask for the time), and ``label`` reads
    what is written in the shard about the map (default: it never changes).
    """

    def __init__(
        self,
        number: int,
        name: str,
        store: WholeStore,
        clock: Clock,
        check: Check | None = None,
        label: Labelled | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.store = store
        self.is_lost = False
        self.clock = clock
        self._check = store.store_time if check is None else check
        self._label = label
        self._back_at = float("-inf")
        self._probe: asyncio.Task[None] | None = None

    @property
    def was_lost_lately(self) -> bool:
        """Whether it does not answer, or did not a moment ago."""
        return self.is_lost or self.clock.monotonic() - self._back_at < LATELY_SECONDS

    async def ask(
        self, call: Callable[[WholeStore], Awaitable[T]], seconds: float | None = None
    ) -> T:
        """Return what the store answers, within `seconds` if given (else its own bound holds).

        Raises `StoreUnavailable` at once while it is lost, and whatever the store raises.
        """
        if self.is_lost:
            raise self._unavailable("does not answer")
        try:
            if seconds is None:
                return await call(self.store)
            async with asyncio.timeout(seconds):
                return await call(self.store)
        except TimeoutError:
            error = self._unavailable(f"did not answer within {seconds:g} s")
            self.lose(error.message)
            raise error from None
        except PartitionMoving:
            # It answers; only this is not to be had from it now.
            raise
        except (StoreUnavailable, OutcomeUnknown) as error:
            if not isinstance(error, StoreBusy):
                self.lose(error.message)
            raise type(error)(f"{self.name}: {error.message}", field=error.field) from error

    async def label(self) -> ShardLabel | None:
        """Return what is written in the shard about the map; None where it never changes. Raises as
        `ask` does.
        """
        label = self._label
        if label is None:
            return None
        return await self.ask(lambda _: label(), LABEL_SECONDS)

    def lose(self, reason: str) -> None:
        """Ask it nothing more until a probe was answered."""
        if self.is_lost:
            return
        self.is_lost = True
        _LOGGER.warning("%s is lost: %s", self.name, reason)
        self._probe = asyncio.get_running_loop().create_task(self._find(), name="mainspring-probe")

    async def close(self) -> None:
        """End the probe and release the store."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self.store.close()

    async def _find(self) -> None:
        pause, told = PAUSE_SECONDS, ""
        while True:
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._check()
                break
            except TimeoutError:
                pass
            except MainspringError as error:
                if not isinstance(error, StoreUnavailable) and error.message != told:
                    told = error.message
                    _LOGGER.warning("%s stays lost: %s", self.name, told)
            await self.clock.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        self.is_lost = False
        self._back_at = self.clock.monotonic()
        _LOGGER.info("%s is back", self.name)

    def _unavailable(self, what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.name} of the task store {what}; its tasks wait until it does, the others go on"
        )
