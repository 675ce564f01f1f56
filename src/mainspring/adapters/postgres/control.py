"""Cancelling, moving in time, and pausing queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.claim import Claiming
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.reads import Reading
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.status import LIVE, TaskStatus
from mainspring.domain.task import CancelState
from mainspring.ports.hooks import HookPoint

_CANCEL: Final = QUERIES["cancel"]
_RESCHEDULE: Final = QUERIES["reschedule"]
_PAUSE: Final = QUERIES["pause"]
_RESUME: Final = QUERIES["resume"]
_ROUNDS: Final = 10


class Controlling(Claiming, Reading):
    """`TaskStore.cancel` and `reschedule`, and `Queues`."""

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel waiting tasks and ask running ones to stop."""
        states: dict[UUID, CancelState] = {}
        missing = set(ids)
        for _ in range(_ROUNDS):
            if not missing:
                break
            rows = await self._main.fetch(_CANCEL, self._now(), sorted(missing), reason)
            for row in rows:
                running = row["running"]
                states[row["id"]] = CancelState.CANCELLING if running else CancelState.CANCELLED
            missing -= states.keys()
            # A task that is live after all was in the dead letters a moment ago: look again.
            statuses = await self.statuses(list(missing))
            for task_id in [*missing]:
                if statuses.get(task_id) not in LIVE:
                    known = task_id in statuses
                    states[task_id] = CancelState.FINISHED if known else CancelState.NOT_FOUND
                    missing.discard(task_id)
        if missing:
            raise StoreUnavailable("the tasks change faster than they can be cancelled; try again")
        await self._hooks.reach(HookPoint.CANCEL_AFTER_COMMIT)
        if CancelState.CANCELLING in states.values():
            self._announcer.cancel()
        return [states[task_id] for task_id in ids]

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus | None:
        """Move a waiting task to another time."""
        rows = await self._main.fetch(_RESCHEDULE, self._now(), task_id, at)
        if rows:
            self._announcer.ready()
            return TaskStatus(rows[0]["status"])
        return (await self.statuses([task_id])).get(task_id)

    async def pause(self, queue: str) -> None:
        """Let no task of the queue start until it is resumed."""
        await self._main.fetch(_PAUSE, queue)

    async def resume(self, queue: str) -> None:
        """Let the tasks of the queue start again."""
        await self._main.fetch(_RESUME, queue)
        self.read_from_the_beginning()
        self._announcer.ready()
