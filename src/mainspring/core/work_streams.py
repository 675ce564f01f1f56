"""All workers that keep a connection to this process; what they share costs one query for all."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from mainspring.core.access import Principal
from mainspring.core.remote_work import Offer, RemoteWork
from mainspring.core.work_stream import POLL_SECONDS, Tell, WorkStream
from mainspring.domain.errors import MainspringError
from mainspring.domain.task import LeaseRef
from mainspring.ports.clock import Clock
from mainspring.ports.store import Hint, Store

POLL_SECONDS_MAX: Final = 1.0
_POLL_SECONDS_PER_STREAM: Final = 0.01
"""A hint wakes streams at once. Looking without one costs a query, so many streams do it less."""

WATCH_SECONDS: Final = 1.0
_WOKEN_AT_ONCE: Final = 4
"""A hint wakes so many streams; each that finds work wakes the next."""

_WATCHED_MAX: Final = 2000
_FAREWELL_SECONDS: Final = 5.0


class WorkStreams:
    """Opens streams for workers and keeps them informed, for one event loop."""

    def __init__(self, work: RemoteWork, store: Store, clock: Clock) -> None:
        self._work = work
        self._store = store
        self._clock = clock
        self._streams: deque[WorkStream] = deque()
        self._duties: list[asyncio.Task[None]] = []
        self._parting: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Event()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._streams)

    @asynccontextmanager
    async def open(
        self, who: Principal, offer: Offer, tell: Tell
    ) -> AsyncIterator[tuple[WorkStream, list[asyncio.Task[None]]]]:
        """Serve a worker for the time of the block; also gives the tasks that do it. When one of
        them ends, something is wrong.
        """
        stream = WorkStream(self._work, self._clock, who, offer, tell)
        stream.found_some = self._wake_one
        self._streams.append(stream)
        self._adapt()
        lasting = [asyncio.create_task(stream.claim()), asyncio.create_task(stream.answer())]
        presence = asyncio.create_task(stream.be_present())
        try:
            yield stream, [*lasting, presence]
        finally:
            self._streams.remove(stream)
            self._adapt()
            stream.close()
            presence.cancel()
            parting = asyncio.create_task(_part(stream, [*lasting, presence]))
            self._parting.add(parting)
            parting.add_done_callback(self._parting.discard)

    async def close(self) -> None:
        """Wait until what streams had claimed at their end was handed back."""
        for duty in self._duties:
            duty.cancel()
        if self._duties or self._parting:
            await asyncio.wait([*self._duties, *self._parting], timeout=_FAREWELL_SECONDS)

    def _adapt(self) -> None:
        """Run what all streams share while there are any."""
        pause = _POLL_SECONDS_PER_STREAM * len(self._streams)
        for stream in self._streams:
            stream.poll_seconds = min(max(POLL_SECONDS, pause), POLL_SECONDS_MAX)
        if self._streams and not self._duties:
            self._duties = [asyncio.create_task(self._listen()), asyncio.create_task(self._watch())]
        elif not self._streams:
            for duty in self._duties:
                duty.cancel()
            self._duties = []

    async def _listen(self) -> None:
        wakeups = self._store.wakeups()
        try:
            while True:
                hints = await wakeups.wait(WATCH_SECONDS)
                if Hint.CANCEL in hints:
                    self._looking.set()
                if Hint.READY in hints:
                    for _ in range(_WOKEN_AT_ONCE):
                        self._wake_one()
        finally:
            await wakeups.close()

    def _wake_one(self) -> None:
        for _ in range(len(self._streams)):
            stream = self._streams[0]
            self._streams.rotate(-1)
            if stream.is_idle:
                stream.wake.set()
                return

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._looking.wait()
            self._looking.clear()
            owners = {lease: stream for stream in self._streams for lease in stream.held}
            leases = list(owners)
            for at in range(0, len(leases), _WATCHED_MAX):
                with suppress(MainspringError):
                    for renewal in await self._store.watch(leases[at : at + _WATCHED_MAX]):
                        owners[LeaseRef(renewal.id, renewal.fencing_token)].learn(renewal)


async def _part(stream: WorkStream, tasks: list[asyncio.Task[None]]) -> None:
    """Let what is on its way arrive, so that nothing stays leased that nobody was given."""
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(MainspringError):
        await stream.say_farewell()
    for end in ends:
        # That the worker is gone is no news; anything else belongs into the log.
        if isinstance(end, Exception) and not isinstance(end, ConnectionError):
            raise end
