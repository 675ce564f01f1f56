"""Work for one worker that keeps a connection: leases come to it as long as it has free slots.

The connection may break at any moment and loses nothing by that: a lease that was sent and is not
renewed runs again elsewhere, one that could not be sent is handed back. Whatever the worker says of
a task is checked as if it came alone (`core.remote_work`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from mainspring.core.access import Principal
from mainspring.core.remote_work import Offer, Outcome, RemoteWork, Report
from mainspring.domain.errors import MainspringError, Unavailable
from mainspring.domain.task import Ending, Lease, LeaseRef, Released, Renewal
from mainspring.ports.clock import Clock

POLL_SECONDS: Final = 0.2
PRESENT_SECONDS: Final = 5.0
_CLAIM_MAX: Final = 100
_GROUP: Final = 500
_OUTAGE_SECONDS: Final = 1.0


class Given(msgspec.Struct, frozen=True):
    """An attempt for the worker to run."""

    lease: Lease


class Ended(msgspec.Struct, frozen=True):
    """What became of an end that the worker reported."""

    lease: LeaseRef
    outcome: Outcome


class Stop(msgspec.Struct, frozen=True):
    """A running task shall stop: it was cancelled, or it is not this worker's any more."""

    lease: LeaseRef
    is_lost: bool


Said = Given | Ended | Stop
Tell = Callable[[Said], Awaitable[None]]
"""Sends something to the worker; raises `ConnectionError` when that is not possible any more."""

End = tuple[LeaseRef, Ending | Report]


class WorkStream:
    """One worker on its connection."""

    def __init__(
        self, work: RemoteWork, clock: Clock, who: Principal, offer: Offer, tell: Tell
    ) -> None:
        self._work = work
        self._clock = clock
        self._who = who
        self._offer = offer
        self._tell = tell
        self._slots = offer.limit
        self._ends: list[End] = []
        self._stops: list[Stop] = []
        self._some_news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_leaving = False
        self._is_closed = False
        self._held: dict[LeaseRef, bool] = {}
        self.poll_seconds = POLL_SECONDS
        self.found_some: Callable[[], None] = lambda: None
        """Called when there was work, so that others look for more of it."""

        self.wake = asyncio.Event()
        """Set when looking for work may be worth it."""

        self.quiet = asyncio.Event()
        """Set while everything that the worker said of its attempts has been answered."""

        self.quiet.set()
        self.is_done = asyncio.Event()
        """Set when the worker has said goodbye and everything was ended."""

    @property
    def held(self) -> tuple[LeaseRef, ...]:
        """The leases that are out."""
        return tuple(self._held)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for work."""
        return not self._is_leaving and len(self._held) < self._slots and not self.wake.is_set()

    def resize(self, slots: int) -> None:
        """Let so many tasks run at a time; what is running goes on."""
        self._slots = slots
        self.wake.set()

    def leave(self) -> None:
        """Give no more leases; done when those that are out were ended."""
        self._is_leaving = True
        self.wake.set()
        self._look_whether_done()

    def close(self) -> None:
        """Send nothing more. What is being claimed meanwhile is handed back."""
        self._is_closed = True
        self._some_news.set()
        self.leave()

    async def end(self, lease: LeaseRef, end: Ending | Report) -> None:
        """Take the end of an attempt; the answer is told. Waits while many are on their way."""
        await self._room.wait()
        self._ends.append((lease, end))
        self._note_news()
        if len(self._ends) >= _GROUP:
            self._room.clear()

    async def heartbeat(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        """Renew leases and answer for each in order."""
        if not leases:
            return []
        worker, seconds = self._offer.worker_id, self._offer.lease_seconds
        renewals = await self._work.heartbeat(self._who, worker, leases, seconds)
        self._drop(LeaseRef(one.id, one.fencing_token) for one in renewals if not one.held)
        self._look_whether_done()
        return renewals

    async def progress(self, lease: LeaseRef, text: str) -> None:
        """Record progress of a running task."""
        await self._work.progress(self._who, self._offer.worker_id, lease, text)

    def learn(self, renewal: Renewal) -> None:
        """Take what the store says of a lease, and have the worker told if it is new."""
        lease = LeaseRef(renewal.id, renewal.fencing_token)
        is_told = self._held.get(lease)
        if is_told is None or (renewal.held and (is_told or not renewal.cancel_requested)):
            return
        if renewal.held:
            self._held[lease] = True
        else:
            self._drop([lease])
        self._stops.append(Stop(lease, is_lost=not renewal.held))
        self._note_news()

    async def claim(self) -> None:
        """Give leases while there are slots.

        Not to be cancelled, because what was claimed has to be given or handed back: it ends by
        itself when the stream is closed.
        """
        while not self._is_closed:
            self.wake.clear()
            free = min(self._slots - len(self._held), _CLAIM_MAX)
            if free <= 0 or self._is_leaving:
                await self.wake.wait()
                continue
            leases, wait = await self._claimed(free)
            await self._give(leases)
            if leases:
                self.found_some()
            if len(leases) < free:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self.wake.wait()

    async def answer(self) -> None:
        """Settle what the worker ended, in groups: one closes when the one before it is done.

        Not to be cancelled either: it ends by itself when the stream is closed.
        """
        while self._ends or not self._is_closed:
            await self._some_news.wait()
            self._some_news.clear()
            ends, self._ends = self._ends, []
            stops, self._stops = self._stops, []
            self._room.set()
            told: list[Said] = [*stops, *await self._settled(ends)]
            for said in told:
                if not self._is_closed:
                    await self._tell(said)
            if not self._ends and not self._stops:
                self.quiet.set()
                self._look_whether_done()

    async def be_present(self) -> None:
        """Keep the worker on the list of those that are alive."""
        while True:
            shown = msgspec.structs.replace(self._offer, limit=max(1, self._slots))
            with suppress(Unavailable):
                await self._work.present(self._who, shown, len(self._held))
            await self._clock.sleep(PRESENT_SECONDS)

    async def say_farewell(self) -> None:
        """Settle what came at the end; a worker with nothing left is off the list."""
        await self._settled(self._ends)
        if not self._held:
            with suppress(Unavailable):
                await self._work.leave(self._who, self._offer.worker_id)

    async def _claimed(self, free: int) -> tuple[list[Lease], float]:
        offer = msgspec.structs.replace(self._offer, limit=free)
        try:
            leases, due = await self._work.claim_now(self._who, offer)
        except Unavailable:
            return [], _OUTAGE_SECONDS
        return leases, self.poll_seconds if due is None else min(self.poll_seconds, due)

    async def _settled(self, ends: Sequence[End]) -> list[Ended]:
        if not ends:
            return []
        leases = [lease for lease, _ in ends]
        try:
            outcomes = await self._work.end_many(self._who, self._offer.worker_id, ends)
        except Unavailable as error:
            # Nobody knows which were ended, so they stay out, and the worker says it again.
            return [Ended(lease, error) for lease in leases]
        self._drop(leases)
        return [Ended(*pair) for pair in zip(leases, outcomes, strict=True)]

    async def _give(self, leases: Sequence[Lease]) -> None:
        left = {LeaseRef(lease.id, lease.fencing_token): lease for lease in leases}
        self._held |= dict.fromkeys(left, False)
        with suppress(ConnectionError):
            for ref, lease in list(left.items()):
                if self._is_leaving:
                    break
                await self._tell(Given(lease))
                del left[ref]
        if left:
            self._drop(left)
            ends: list[End] = [(ref, Released()) for ref in left]
            with suppress(MainspringError):
                await self._work.end_many(self._who, self._offer.worker_id, ends)

    def _note_news(self) -> None:
        self.quiet.clear()
        self._some_news.set()

    def _drop(self, leases: Iterable[LeaseRef]) -> None:
        for lease in leases:
            self._held.pop(lease, None)
        self.wake.set()

    def _look_whether_done(self) -> None:
        if self._is_leaving and not self._held and self.quiet.is_set():
            self.is_done.set()
