"""Asking the store for work: how much, of which kinds, and when.

A busy worker claims in large batches: it waits a few milliseconds for room to gather. An idle one
sleeps until a hint, the next due time or the backstop. Claims are at least some milliseconds
apart, so that many tasks that become due one after the other come together.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from mainspring.core.registry import Mode
from mainspring.domain.errors import MainspringError
from mainspring.domain.priority import FairShare
from mainspring.ports.store import Claim, ClaimRequest
from mainspring.worker.attempts import Attempts
from mainspring.worker.setting import Setting
from mainspring.worker.waiting import first_of

PACE_SECONDS: Final = 0.005
GATHER_SECONDS: Final = 0.02
"""How long room may gather while other attempts are waiting to fill the slots."""

_PART: Final = 4
_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 2.0

Modes = tuple[Mode, ...]


class Claimer:
    """Claims tasks for a fleet."""

    def __init__(self, setting: Setting, attempts: Attempts) -> None:
        self._store = setting.store
        self._clock = setting.clock
        self._chance = setting.chance
        self._log = setting.log
        self._options = setting.options
        self._worker_id = setting.worker_id
        self._registry = setting.registry
        self._attempts = attempts
        self._fleet = attempts.fleet
        self._room = attempts.room
        self._types: dict[Mode, list[str]] = {mode: [] for mode in Mode}
        for definition in setting.registry:
            self._types[definition.mode].append(definition.name)
        self.modes: Modes = tuple(mode for mode in Mode if self._types[mode])
        """The kinds of handlers that the app has."""

        self._is_stopped = False
        self._shares: dict[Modes, FairShare] = {}
        self._turn = 0
        self._hungry: set[Mode] = set()
        self._failures = 0
        self._expects_more = False
        self._wake = asyncio.Event()
        self._freed = attempts.completer.has_freed
        self.idle = asyncio.Event()
        """Set while no claim is under way."""

        self.failed = asyncio.Event()
        """Set when a claim or a part of one got no answer; what it leased is not known here."""

        self.idle.set()

    def hint_ready(self) -> None:
        """Tasks may be due."""
        self._wake.set()

    def stop(self) -> None:
        """Claim no more; `run` returns when a claim that is under way has been answered."""
        self._is_stopped = True
        self._wake.set()
        self._room.set()

    async def run(self) -> None:
        """Claim whenever there is room and work, until stopped."""
        while modes := await self._modes_with_room():
            # A hint that comes from here on may be about tasks that this claim does not see.
            self._wake.clear()
            self._freed.clear()
            started = self._clock.monotonic()
            self.idle.clear()
            try:
                pause = await self.claim(modes)
            except MainspringError as error:
                self.failed.set()
                pause = self._after_failure(error)
            else:
                self._failures = 0
            finally:
                self.idle.set()
            if pause > 0 and not self._is_stopped:
                await self._rest(pause)
                await self._clock.sleep(max(0.0, started + PACE_SECONDS - self._clock.monotonic()))

    async def claim(self, modes: Modes) -> float:
        """Claim once; returns how many seconds to wait before the next claim (0: there is more)."""
        limit = min(self._options.claim_limit, *map(self._wanted, _bounding(modes)))
        if limit <= 0 or self._attempts.completer.is_behind:
            return self._options.poll_seconds
        task_types = tuple(name for mode in modes for name in self._types[mode] if self._may(name))
        if not task_types:
            return self._options.poll_seconds
        share = self._shares.setdefault(modes, FairShare())
        request = ClaimRequest(
            worker_id=self._worker_id,
            limit=limit,
            lease_seconds=self._options.lease_seconds,
            task_types=task_types,
            queues=self._options.queues,
            lanes=self._options.lanes,
            labels=self._options.labels,
            served=share.served,
            freed=self._attempts.completer.take_freed(),
        )
        sent = self._clock.monotonic()
        claim = await self._store.claim(request)
        if claim.leases:
            ordered = share.order([(lease.lane, lease) for lease in claim.leases])
            self._attempts.take(ordered, sent + self._options.lease_seconds)
        if claim.is_partial:
            self.failed.set()
        self._expects_more = claim.next_due_seconds is not None
        return self._next_pause(claim, limit, modes)

    def _next_pause(self, claim: Claim, limit: int, modes: Modes) -> float:
        if len(claim.leases) >= limit:
            self._hungry.update(modes)
        else:
            self._hungry.difference_update(modes)
        wanted = {mode for mode in self.modes if self._wanted(mode) > 0}
        if not (wanted.isdisjoint(self._hungry) and wanted.issubset(modes)):
            return 0.0
        pause = self._options.poll_seconds
        if claim.next_due_seconds is not None:
            pause = min(pause, claim.next_due_seconds)
        return max(pause, PACE_SECONDS / 2)

    async def _modes_with_room(self) -> Modes:
        """Wait until something can be taken and return what to ask for; nothing when stopped."""
        while not self._is_stopped and not (modes := self._asked_for()):
            self._room.clear()
            await self._room.wait()
        if self._is_stopped:
            return ()
        if self._hungry.isdisjoint(modes) or self._is_roomy(modes):
            return modes
        # Under load a few milliseconds make a claim several times larger.
        is_starved = any(self._fleet.room(mode) > 0 for mode in modes)
        await self._clock.sleep(PACE_SECONDS if is_starved else GATHER_SECONDS)
        return modes

    def _asked_for(self) -> Modes:
        """Return the kinds to ask for: all that have room at once, while that is little work.

        Together they can only be given as many as the kind with the least room, so kinds that
        have more to do than that are asked for alone, by turns with the rest.
        """
        free = tuple(mode for mode in self.modes if self._wanted(mode) > 0)
        alone: list[Modes] = [(mode,) for mode in free if mode in self._hungry]
        rest = tuple(mode for mode in free if mode not in self._hungry)
        groups = [*alone, rest] if rest else alone
        if not groups:
            return ()
        self._turn += 1
        return groups[self._turn % len(groups)]

    def _wanted(self, mode: Mode) -> int:
        return self._fleet.room(mode) + self._prefetch(mode)

    def _may(self, name: str) -> bool:
        """Whether to ask for a type: an exclusive one is left alone while there are no locks."""
        return self._attempts.exclusion.allows(self._registry.get(name))

    def _prefetch(self, mode: Mode) -> int:
        if mode is Mode.PROCESS or not self._fleet.is_free():
            return 0
        work = self._attempts.pace.work(mode, self._options.prefetch_seconds)
        return min(work, 2 * self._options.claim_limit)

    def _is_roomy(self, modes: Iterable[Mode]) -> bool:
        return all(
            self._wanted(mode) * _PART >= self._fleet.capacity(mode) + self._prefetch(mode)
            for mode in modes
        )

    async def _rest(self, seconds: float) -> None:
        """Wait for a hint, for room where there was more work than room, or for the end of a task
        of a group where something may be held.
        """
        events = [self._wake]
        if self._hungry:
            events.append(self._room)
        if self._expects_more:
            events.append(self._freed)
        self._room.clear()
        await first_of(seconds, *events)

    def _after_failure(self, error: MainspringError) -> float:
        if not self._failures:
            self._log.warning("tasks could not be claimed; trying again", error=str(error))
        pause = min(_RETRY_SECONDS * 2.0**self._failures, _RETRY_SECONDS_MAX)
        self._failures = min(self._failures + 1, 10)
        return pause * (0.5 + self._chance.random())


def _bounding(modes: Modes) -> Modes:
    """Return the kinds whose room limits a claim for several kinds.

    Few tasks run alone in a process, so they must not keep such claims small; of those that come
    beyond their room some wait and the rest goes back.
    """
    return tuple(mode for mode in modes if mode is not Mode.PROCESS) or modes
