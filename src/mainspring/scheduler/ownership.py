"""Owns this scheduler's share of the partitions, for as long as it can be sure of it.

Winning the key of a partition gives the right to ask the task store for an epoch, and the epoch
the right to plan. Whoever cannot renew its session stops planning by itself before the session can
have ended; whoever finds that out too late has an old epoch, which the store refuses.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from mainspring.domain.errors import SetupError, Unavailable
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.partitions import share_out, spans
from mainspring.ports.clock import Chance, Clock
from mainspring.ports.coordination import Coordination, Epochs, Fence, Session, View
from mainspring.ports.hooks import HookPoint, Hooks, NoHooks
from mainspring.scheduler.loop import Interval
from mainspring.scheduler.waiting import first_of

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

TTL_SECONDS: Final = 10.0
"""How long a scheduler that was killed keeps its partitions (default)."""

TRUSTED_SHARE: Final = 0.8
"""The part of the session, from when its renewal was sent, in which its owner relies on it."""

RENEWED_SHARE: Final = 0.25
_ROUND_SHARE: Final = 0.3
_ROUND_SECONDS_MIN: Final = 1.5
_LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
_OUTAGE: Final = Interval(
    seconds=0.0, jitter=0.2, first_pause_seconds=0.1, longest_pause_seconds=1.0
)


class Ownership:
    """`core.service.Service`: joins, shares the partitions out with the others, and hands over.

    `member` is a name that no other process start ever has.
    """

    name = "ownership"

    def __init__(
        self,
        coordination: Coordination,
        epochs: Epochs,
        clock: Clock,
        chance: Chance,
        *,
        member: str,
        ttl_seconds: float = TTL_SECONDS,
        hooks: Hooks | None = None,
    ) -> None:
        self.member = member
        self._coordination = coordination
        self._epochs = epochs
        self._clock = clock
        self._chance = chance
        self._ttl_seconds = ttl_seconds
        self._hooks = NoHooks() if hooks is None else hooks
        self._session: Session | None = None
        self._held: dict[int, int] = {}
        self._alive: frozenset[str] = frozenset()
        self._trusted_until = 0.0
        self._renew_at = 0.0
        self._failures = 0
        self._fails_by_setup = False
        self._is_short = False
        self._has_joined = asyncio.Event()
        self._gained = asyncio.Event()
        self._refused = asyncio.Event()

    async def run(self) -> None:
        """Own what is ours until cancelled; then give it back at once."""
        try:
            while True:
                await self.run_once()
                await self._rest()
        finally:
            await self._leave()

    async def run_once(self) -> int:
        """Renew, look, and own what is ours now; returns the number of partitions owned.

        An outage is survived, and reported once. So is what only somebody who changes the
        installation can end, such as a password that is refused, for who has joined before: its
        duties that need no owner go on. Who never has raises it.
        """
        seconds = max(_ROUND_SECONDS_MIN, _ROUND_SHARE * self._ttl_seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._round()
        except TimeoutError:
            self._fail("there was no answer in time")
        except Unavailable as error:
            self._fail(error.message)
        except SetupError as error:
            if not self._has_joined.is_set():
                raise
            self._fail(error.message, by_setup=True)
        else:
            if self._failures:
                _LOGGER.info(
                    "coordination of schedulers goes on after %d failed rounds; %s owns %d of %d "
                    "partitions",
                    *(self._failures, self.member, len(self._held), PARTITIONS),
                )
            self._failures = 0
        return len(self._held)

    @property
    def is_sure(self) -> bool:
        """Whether its session is sure to last; without that it plans for nothing."""
        return self._session is not None and self._clock.monotonic() < self._trusted_until

    def fence(self) -> Fence:
        """Return what may be planned for now: nothing unless the session is sure to last."""
        is_sure = self._clock.monotonic() < self._trusted_until
        return Fence(dict(self._held) if is_sure else {})

    def refuse(self, partitions: Collection[int]) -> None:
        """Take note that the store knows a later epoch of these."""
        stale = self._held.keys() & set(partitions)
        if stale:
            self._drop(stale, "the task store knows a later epoch")
            self._refused.set()

    async def joined(self) -> None:
        """Return when this scheduler is a member, with or without a partition of its own."""
        await self._has_joined.wait()

    async def gained(self) -> None:
        """Return when partitions were gained since the last call returned."""
        await self._gained.wait()
        self._gained.clear()

    async def _round(self) -> None:
        session = self._session
        if session is None:
            session = await self._join()
        elif self._clock.monotonic() >= self._renew_at and not await self._renew(session):
            self._end("its session is over")
            session = await self._join()
        view = await session.view()
        if self.member not in view.members:
            self._end("it is not a member any more")
            self._is_short = True
            return
        self._notice(view)
        await self._settle(session, view)

    async def _join(self) -> Session:
        sent = self._clock.monotonic()
        session = await self._coordination.join(self.member, self._ttl_seconds)
        self._session = session
        self._believe(session, sent)
        self._has_joined.set()
        return session

    async def _renew(self, session: Session) -> bool:
        """Let the session last, if the store is there: who cannot plan is to leave it to others."""
        sent = self._clock.monotonic()
        states = await self._epochs.partition_states()
        known = {state.partition: state.epoch for state in states}
        if not await session.renew():
            return False
        await self._hooks.reach(HookPoint.RENEW_AFTER_REPLY)
        self._believe(session, sent)
        self.refuse([one for one, epoch in self._held.items() if known.get(one) != epoch])
        return True

    def _believe(self, session: Session, sent: float) -> None:
        self._trusted_until = sent + TRUSTED_SHARE * session.ttl_seconds
        self._renew_at = sent + RENEWED_SHARE * session.ttl_seconds

    def _notice(self, view: View) -> None:
        """Say who came and went, and drop what others have by now."""
        if view.members != self._alive:
            count = len(view.members)
            many = "1 scheduler is" if count == 1 else f"{count} schedulers are"
            _LOGGER.info("%s alive: %s", many, ", ".join(sorted(view.members)))
            self._alive = view.members
        taken = {one for one in self._held if view.holders.get(one) != self.member}
        if taken:
            self._drop(taken, "their keys are gone")

    async def _settle(self, session: Session, view: View) -> None:
        """Give back what is another's share, and take of ours what is free."""
        owners = share_out(view.members, view.holders)
        ours = {one for one, owner in owners.items() if owner == self.member}
        keys = {one for one, holder in view.holders.items() if holder == self.member}
        if keys - ours:
            await self._hand_over(session, keys - ours, owners)
        wanted = ours - self._held.keys()
        free = {one for one in wanted if view.holders.get(one, self.member) == self.member}
        won = await session.acquire(free) if free else frozenset[int]()
        gained: dict[int, int] = {}
        if won:
            await self._hooks.reach(HookPoint.ELECT_AFTER_KEY)
            gained = await self._epochs.raise_epochs(won, self.member)
            await self._hooks.reach(HookPoint.ELECT_AFTER_EPOCH)
        self._is_short = len(gained) < len(free)
        if gained:
            self._held.update(gained)
            self._say("gained", gained)
            self._gained.set()

    async def _hand_over(
        self, session: Session, partitions: Collection[int], owners: Mapping[int, str]
    ) -> None:
        held = {one: self._held.pop(one) for one in partitions if one in self._held}
        if held:
            await self._epochs.give_up_epochs(held)
        await session.release(partitions)
        if held:
            heirs = ", ".join(sorted({owners[one] for one in held}))
            self._say("handed over", held, f"to {heirs}")

    async def _leave(self) -> None:
        """Give everything back, if that is quick: else it ends by itself."""
        session, held = self._session, dict(self._held)
        self._session = None
        self._held.clear()
        if session is None:
            return
        with suppress(Unavailable, SetupError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                if held:
                    await self._epochs.give_up_epochs(held)
                await session.leave()
        if held:
            self._say("handed over", held, "and leaves")

    def _end(self, reason: str) -> None:
        self._session = None
        if self._held:
            self._drop(set(self._held), reason)

    def _drop(self, partitions: Collection[int], reason: str) -> None:
        for one in partitions:
            del self._held[one]
        self._say("lost", partitions, reason, level=logging.WARNING)

    def _fail(self, reason: str, *, by_setup: bool = False) -> None:
        if not self._failures or by_setup != self._fails_by_setup:
            _LOGGER.warning("coordination of schedulers waits: %s", reason)
        self._failures += 1
        self._fails_by_setup = by_setup

    def _say(
        self, verb: str, partitions: Collection[int], more: str = "", level: int = logging.INFO
    ) -> None:
        _LOGGER.log(
            level,
            "%s %s partitions %s%s; it owns %d of %d",
            *(self.member, verb, spans(partitions), f" ({more})" if more else ""),
            *(len(self._held), PARTITIONS),
        )

    async def _rest(self) -> None:
        if self._failures or self._session is None:
            seconds = _OUTAGE.pause(max(1, self._failures), self._chance.random())
            await self._clock.sleep(seconds)
            return
        self._refused.clear()
        left = self._renew_at - self._clock.monotonic()
        seconds = min(left, _AGAIN_SECONDS) if self._is_short else left
        if seconds > 0:
            await first_of(self._session.changed(seconds), self._refused.wait())
