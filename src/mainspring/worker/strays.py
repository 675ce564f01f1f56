"""Leases that the store has of a worker which was never told of them.

The answer to a claim may be lost after its commit. Nobody would run these tasks until their leases
are over, and each would be charged an attempt that never began. So a worker of which a claim failed
asks for its leases, and gives back, uncharged, those it does not know.
"""

from typing import Final

from mainspring.domain.errors import MainspringError
from mainspring.domain.task import LeaseRef, Released, Settlement
from mainspring.worker.attempts import Attempts
from mainspring.worker.claims import Claimer
from mainspring.worker.setting import Setting

SOON_SECONDS: Final = 1.0
LATER_SECONDS: Final = 5.0
"""When no statement of the time of the failure can still be under way."""


class Strays:
    """Looks for what was claimed and never arrived."""

    def __init__(self, setting: Setting, attempts: Attempts, claimer: Claimer) -> None:
        self._store = setting.store
        self._clock = setting.clock
        self._log = setting.log
        self._worker_id = setting.worker_id
        self._attempts = attempts
        self._answered = claimer.idle
        self._failed = claimer.failed
        self._is_in_doubt = False

    async def run(self) -> None:
        """Look whenever a claim failed, for ever."""
        while True:
            await self._failed.wait()
            self._failed.clear()
            self._is_in_doubt = True
            await self._clock.sleep(SOON_SECONDS)
            await self.look()
            await self._clock.sleep(LATER_SECONDS)
            if await self.look():
                self._is_in_doubt = False
            else:
                self._failed.set()

    async def finish(self) -> None:
        """Look once more if there is doubt; nothing is claimed any more."""
        if self._is_in_doubt or self._failed.is_set():
            await self.look()

    async def look(self) -> bool:
        """Give back what this worker was never told of; False when a part of the store did not
        answer.
        """
        known = self._known()
        found: set[LeaseRef] = set()
        is_whole = True
        for part in self._store.parts():
            try:
                found.update(await part.leases_of(self._worker_id))
            except MainspringError:
                is_whole = False
        # What was claimed while we looked has arrived by then, or is a stray of the next look.
        await self._answered.wait()
        strays = found - known - self._known()
        if not strays:
            return is_whole
        try:
            await self._give_back(strays)
        except MainspringError:
            return False
        return is_whole

    def _known(self) -> set[LeaseRef]:
        # An attempt that was stopped because its lease was uncertain has run: it is charged for.
        return self._attempts.references().union(self._attempts.dropped)

    async def _give_back(self, strays: set[LeaseRef]) -> None:
        answers = await self._store.settle(
            [Settlement(lease.id, lease.fencing_token, Released()) for lease in strays]
        )
        self._log.warning(
            "tasks were leased to this worker and the answer was lost; they were given back",
            count=sum(answers),
        )
