"""Keeping leases, and learning of those that are lost or whose task was cancelled.

Renewals run on their own, whatever handlers do. A renewal that fails says nothing about a lease:
work goes on until the time up to which the lease certainly lasts, counted from when the last good
renewal was sent. Then, and when the store says that a lease is lost, the handler is stopped.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mainspring.domain.errors import MainspringError
from mainspring.domain.task import Renewal
from mainspring.worker.held import Held, Holdings
from mainspring.worker.messages import StopReason
from mainspring.worker.setting import Setting

WATCH_SECONDS: Final = 1.0
WATCH_AFTER_SECONDS: Final = 0.5
"""Attempts that have run for less are not looked at without a hint: most end before."""

BATCH_LEASES: Final = 1000
_RETRY_SECONDS_MAX: Final = 1.0
_MARGIN_SECONDS_MAX: Final = 1.0

Stopper = Callable[[Held, StopReason], None]


class LeaseKeeper:
    """Renews and watches the leases in `holdings`; `stop` is called for attempts that must end."""

    def __init__(self, setting: Setting, holdings: Holdings, stop: Stopper) -> None:
        self._store = setting.store
        self._clock = setting.clock
        self._log = setting.log
        self._lease_seconds = setting.options.lease_seconds
        self._heartbeat_seconds = setting.options.heartbeat_seconds
        self._margin = min(_MARGIN_SECONDS_MAX, self._lease_seconds / 10)
        self._holdings = holdings
        self._stop = stop
        self._is_failing = False
        self._cancel_hint = asyncio.Event()
        self._apart: asyncio.Task[None] | None = None

    async def keep(self) -> None:
        """Renew all leases regularly, for ever."""
        pause = self._heartbeat_seconds
        while True:
            await self._clock.sleep(pause)
            is_done = await self.renew_all()
            retry = min(_RETRY_SECONDS_MAX, self._heartbeat_seconds / 4)
            pause = self._heartbeat_seconds if is_done else retry

    async def renew_all(self) -> bool:
        """Renew everything once; False when the store did not answer for some of it."""
        # Those whose handler has ended, too: until the ending is stored nobody else shall run them.
        together = [
            each for each in self._holdings.values() if each.is_settling or not each.is_committing
        ]
        apart = [
            each for each in self._holdings.values() if each.is_committing and not each.is_settling
        ]
        if apart and (self._apart is None or self._apart.done()):
            self._apart = asyncio.get_running_loop().create_task(self._renew_each(apart))
        answers = await asyncio.gather(*map(self._renew_batches, self._by_part(together)))
        return all(answers)

    def _by_part(self, leases: Iterable[Held]) -> list[list[Held]]:
        """One part of the store that is away must not cost the leases in the others."""
        parts: dict[int, list[Held]] = {}
        for held in leases:
            parts.setdefault(self._store.shard_of(held.lease.id), []).append(held)
        return list(parts.values())

    async def _renew_batches(self, leases: Sequence[Held]) -> bool:
        starts = range(0, len(leases), BATCH_LEASES)
        answers = [await self._renew(leases[start : start + BATCH_LEASES]) for start in starts]
        return all(answers)

    async def renew_one(self, held: Held) -> bool:
        """Renew one lease now and say whether it is held; waits while the store is away."""
        while self._is_current(held) and held.expires_at > self._clock.monotonic():
            if await self._renew([held]):
                break
            await self._clock.sleep(self._margin)
        return self._is_current(held) and held.stopped_by is not StopReason.LOST

    async def watch(self) -> None:
        """Look regularly, and at once after a hint, for what was cancelled or lost, for ever."""
        while True:
            is_hinted = await self._hinted(WATCH_SECONDS)
            await self.look(0.0 if is_hinted else WATCH_AFTER_SECONDS)

    def hint_cancel(self) -> None:
        """Some running task may have been cancelled."""
        self._cancel_hint.set()

    async def look(self, after_seconds: float) -> None:
        """Ask the store about the attempts that have run for so long."""
        started_by = self._clock.monotonic() - after_seconds
        running = [
            held
            for held in self._holdings.values()
            if (held.dispatched_at or held.claimed_at) <= started_by
            and not held.is_settling
            and not held.is_committing
        ]
        await asyncio.gather(*map(self._look, self._by_part(running)))

    async def _look(self, running: Sequence[Held]) -> None:
        for start in range(0, len(running), BATCH_LEASES):
            batch = running[start : start + BATCH_LEASES]
            try:
                async with asyncio.timeout(self._heartbeat_seconds):
                    renewals = await self._store.watch([held.reference for held in batch])
            except (MainspringError, TimeoutError):
                return
            self._learn(batch, renewals, None)

    def drop_expired(self, now: float) -> None:
        """Stop what can no longer be certain of its lease."""
        limit = now + self._margin
        for held in tuple(self._holdings.values()):
            if held.expires_at <= limit and not held.is_settling:
                self._stop(held, StopReason.LOST)

    async def _renew(self, batch: Sequence[Held]) -> bool:
        sent = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._heartbeat_seconds):
                renewals = await self._store.heartbeat(
                    [held.reference for held in batch], self._lease_seconds
                )
        except (MainspringError, TimeoutError) as error:
            if not self._is_failing:
                self._log.warning(
                    "leases could not be renewed; trying again",
                    leases=len(batch),
                    error=str(error) or type(error).__name__,
                )
            self._is_failing = True
            return False
        self._is_failing = False
        self._learn(batch, renewals, sent)
        return True

    def _learn(
        self, batch: Sequence[Held], renewals: Sequence[Renewal], sent: float | None
    ) -> None:
        """Act on answers; they mean nothing for attempts that have ended meanwhile."""
        for held, renewal in zip(batch, renewals, strict=True):
            if not self._is_current(held):
                continue
            if not renewal.held:
                # A handler that completes its task itself ends its own lease.
                if not held.is_committing:
                    self._stop(held, StopReason.LOST)
                continue
            if sent is not None:
                held.expires_at = max(held.expires_at, sent + self._lease_seconds)
            if renewal.cancel_requested:
                self._stop(held, StopReason.CANCEL)

    def _is_current(self, held: Held) -> bool:
        return self._holdings.get(held.number) is held and not held.is_settling

    async def _renew_each(self, leases: Iterable[Held]) -> None:
        """Renew one after the other: each may have to wait for the handler's transaction, which has
        its row, and takes a connection for so long.
        """
        for held in leases:
            if self._is_current(held):
                await self._renew([held])

    async def _hinted(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._cancel_hint.wait()
        except TimeoutError:
            return False
        self._cancel_hint.clear()
        return True
