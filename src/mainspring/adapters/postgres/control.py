"""Cancelling, moving in time, and the switches and limits of queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from mainspring.adapters.postgres.claim import Claiming
from mainspring.adapters.postgres.pool import Record
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.reads import Reading
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.limits import GROUP_LIMITS_MAX, Limit, QueueLimits, too_many_group_limits
from mainspring.domain.status import LIVE, TaskStatus
from mainspring.domain.task import CancelState
from mainspring.ports.hooks import HookPoint

_CANCEL: Final = QUERIES["cancel"]
_RESCHEDULE: Final = QUERIES["reschedule"]
_PAUSE: Final = QUERIES["pause"]
_RESUME: Final = QUERIES["resume"]
_SET_LIMITS: Final = QUERIES["set_limits"]
_SET_GROUP_LIMIT: Final = QUERIES["set_group_limit"]
_DROP_GROUP_LIMIT: Final = QUERIES["drop_group_limit"]
_LIMITS: Final = QUERIES["limits"]
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

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both."""
        columns = (whole is not None, *_columns(whole), group is not None, *_columns(group))
        await self._main.fetch(_SET_LIMITS, self._now(), queue, *columns)
        self._reconsider()

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or none."""
        if limit is None:
            await self._main.fetch(_DROP_GROUP_LIMIT, self._now(), queue, group_key)
        else:
            columns = (*_columns(limit), GROUP_LIMITS_MAX)
            if not await self._main.fetch(
                _SET_GROUP_LIMIT, self._now(), queue, group_key, *columns
            ):
                raise too_many_group_limits()
        self._reconsider()

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue."""
        rows = await self._main.fetch(_LIMITS, queue)
        found = {(row["scope"], row["group_key"]): _limit(row) for row in rows}
        return QueueLimits(
            queue=found.pop(("queue", None), Limit()),
            group=found.pop(("group", None), Limit()),
            groups={key: limit for (_, key), limit in found.items()},
        )

    def _reconsider(self) -> None:
        """Let workers look anew at what the limits of before held back."""
        self.read_from_the_beginning()
        self.expect_room()
        self._announcer.ready()


def _columns(limit: Limit | None) -> tuple[int | None, float | None, int | None]:
    return (None, None, None) if limit is None else (limit.concurrency, limit.rate, limit.burst)


def _limit(row: Record) -> Limit:
    return Limit(concurrency=row["concurrency"], rate=row["rate"], burst=row["burst"])
