"""The locks of exclusive tasks: taken before the handler starts, kept with the leases, and ended
with the attempt.

The lease already says who runs a task. The lock says it a second time in another place, for when
the first has forgotten: a database that was set back to an earlier moment gives a task that is
running to somebody else. Without locks an exclusive task waits.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from mainspring.core.registry import TaskDefinition
from mainspring.domain.task import Lease
from mainspring.ports.locks import Grant, Locks, LocksUnavailable
from mainspring.worker.held import Held
from mainspring.worker.messages import StopReason
from mainspring.worker.setting import Setting

Stopper = Callable[[Held, StopReason], None]

_PAUSE_SECONDS: Final = (1.0, 15.0)
_MARGIN_SECONDS_MAX: Final = 1.0


class Exclusion:
    """Holds the locks of a worker's exclusive tasks; `stop` is called for those that are lost."""

    def __init__(self, setting: Setting, stop: Stopper) -> None:
        self._locks = setting.locks
        self._clock = setting.clock
        self._log = setting.log
        self._worker_id = setting.worker_id
        self._lease_seconds = setting.options.lease_seconds
        self._heartbeat_seconds = setting.options.heartbeat_seconds
        self._margin = min(_MARGIN_SECONDS_MAX, self._lease_seconds / 10)
        self._stop = stop
        self._exclusive = {each.name for each in setting.registry if each.exclusive}
        self._held: dict[int, Held] = {}
        self._failures = 0
        self._away_until = 0.0

    def applies_to(self, lease: Lease) -> bool:
        """Whether a task is exclusive."""
        return lease.task_type in self._exclusive

    def allows(self, definition: TaskDefinition) -> bool:
        """Whether tasks of a type can be started now, as far as locks are concerned."""
        return not definition.exclusive or self._clock.monotonic() >= self._away_until

    async def take(self, held: Held) -> float | None:
        """Take the lock of a task: None, or after how many seconds to try again."""
        locks = self._usable()
        sent = self._clock.monotonic()
        try:
            answer = await locks.acquire(_name(held), self._owner(held), self._lease_seconds)
        except LocksUnavailable as error:
            return self._note_away(error)
        self._failures = 0
        if not isinstance(answer, Grant):
            return answer.seconds
        held.locked_until = sent + self._lease_seconds
        self._held[held.number] = held
        return None

    async def give_up(self, held: Held) -> None:
        """End the lock of a task, if it has one; without an answer it ends by itself."""
        if self._held.pop(held.number, None) is not None:
            with suppress(LocksUnavailable):
                await self._usable().release(_name(held), self._owner(held))

    async def keep(self) -> None:
        """Extend all locks regularly, for ever."""
        pause = self._heartbeat_seconds
        while True:
            await self._clock.sleep(pause)
            is_done = await self.extend_all()
            pause = self._heartbeat_seconds if is_done else min(1.0, self._heartbeat_seconds / 4)

    async def extend_all(self) -> bool:
        """Extend everything once; False when there was no answer for some of it."""
        for held in tuple(self._held.values()):
            sent = self._clock.monotonic()
            try:
                is_ours = await self._usable().extend(
                    _name(held), self._owner(held), self._lease_seconds
                )
            except LocksUnavailable as error:
                self._note_away(error)
                return False
            self._failures = 0
            if held.number not in self._held:
                continue
            if is_ours:
                held.locked_until = sent + self._lease_seconds
            else:
                self._lose(held)
        return True

    def drop_expired(self, now: float) -> None:
        """Stop what can no longer be certain of its lock."""
        for held in tuple(self._held.values()):
            if held.locked_until is not None and held.locked_until - self._margin <= now:
                self._lose(held)

    async def close(self) -> None:
        """Give everything up and release connections."""
        for held in tuple(self._held.values()):
            await self.give_up(held)
        if self._locks is not None:
            await self._locks.close()

    def _lose(self, held: Held) -> None:
        if not held.is_settling and held.stopped_by is None:
            self._log.warning("a lock was lost; its task goes back", task_id=str(held.lease.id))
            self._stop(held, StopReason.UNLOCKED)

    def _note_away(self, error: LocksUnavailable) -> float:
        first, longest = _PAUSE_SECONDS
        if not self._failures:
            self._log.warning("exclusive tasks wait until there are locks again", error=str(error))
        pause = min(first * 2.0**self._failures, longest)
        self._failures = min(self._failures + 1, 10)
        self._away_until = self._clock.monotonic() + pause
        return pause

    def _usable(self) -> Locks:
        assert self._locks is not None, "exclusive tasks without locks"
        return self._locks

    def _owner(self, held: Held) -> str:
        return f"{self._worker_id}:{held.lease.fencing_token}"


def exclusive_types(definitions: Iterable[TaskDefinition]) -> list[str]:
    """Return the names of those task types that need locks."""
    return sorted(definition.name for definition in definitions if definition.exclusive)


def _name(held: Held) -> str:
    return f"task:{held.lease.id}"
