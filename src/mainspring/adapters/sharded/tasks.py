"""Writes to live tasks."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from mainspring.adapters.sharded.division import Division, answered
from mainspring.adapters.sharded.part import ShardedPart
from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import OutcomeUnknown, Unavailable
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    CancelState,
    Lease,
    LeaseRef,
    NewTask,
    Renewal,
    Rescued,
    Settlement,
    Submission,
)
from mainspring.ports.store import Claim, ClaimRequest

CLAIM_SECONDS: Final = 2.0
"""A shard that takes longer over a claim holds up the tasks of the others no more."""


class ShardedTasks(ShardedPart):
    """`ports.store.TaskStore`."""

    def __init__(self, division: Division) -> None:
        super().__init__(division)
        self._turn = 0

    async def submit(self, tasks: Sequence[NewTask], *, first: bool = False) -> list[Submission]:
        """Store tasks durably, each in its shard, and answer for each in order."""
        return await self._division.routed(
            tasks, _id_of_task, lambda store, part: store.submit(part, first=first)
        )

    async def claim(self, request: ClaimRequest) -> Claim:
        """Lease due tasks, from each shard an equal part; what one has not is taken from others.

        Within a shard the order is that of the port, between shards it is not looked at.
        """
        self._turn += 1
        shards = self._division.shards
        start = self._turn % len(shards)
        waiting = [*shards[start:], *shards[:start]]
        leases: list[Lease] = []
        dues: list[float] = []
        answers: dict[int, Claim | BaseException] = {}
        while waiting and len(leases) < request.limit:
            asked = _shares(waiting, request.limit - len(leases))
            found = await asyncio.gather(
                *(_claim(shard, request, share) for shard, share in asked), return_exceptions=True
            )
            waiting = waiting[len(asked) :]
            for (shard, share), claim in zip(asked, found, strict=True):
                answers[shard.number] = claim
                if isinstance(claim, BaseException):
                    continue
                leases += claim.leases
                if len(claim.leases) == share:
                    waiting.append(shard)
                elif claim.next_due_seconds is not None:
                    dues.append(claim.next_due_seconds)
        if not leases:
            answered(answers)
        is_partial = any(isinstance(answer, BaseException) for answer in answers.values())
        return Claim(leases, min(dues, default=None), is_partial)

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        """Extend leases where the token still owns the task."""
        return await self._division.routed(
            leases, _id_of, lambda store, part: store.heartbeat(part, lease_seconds), _is_held
        )

    async def watch(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        """Answer as `heartbeat` does without extending anything."""
        return await self._division.routed(
            leases, _id_of, lambda store, part: store.watch(part), _is_held
        )

    async def leases_of(self, worker_id: str) -> list[LeaseRef]:
        """Return every lease that a worker has; raises when a shard does not answer."""
        answers = await self._division.everywhere(lambda store: store.leases_of(worker_id))
        return [lease for answer in answers for lease in answer]

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts; True where the token still owned the task. Endings of one kind are one
        statement of a shard, so that one of them is stored or not as a whole.
        """
        kinds: dict[type, list[Settlement]] = {}
        for settlement in settlements:
            kinds.setdefault(type(settlement.ending), []).append(settlement)
        if len(kinds) <= 1:
            return await self._settle(settlements)
        ended: dict[int, bool] = {}
        for part in kinds.values():
            try:
                answers = await self._settle(part)
            except Unavailable as error:
                if not ended:
                    raise
                raise OutcomeUnknown(
                    f"some of the attempts were ended and some were not: {error.message}"
                ) from error
            ended |= {id(one): answer for one, answer in zip(part, answers, strict=True)}
        return [ended[id(settlement)] for settlement in settlements]

    async def _settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._division.routed(
            settlements, _id_of, lambda store, part: store.settle(part), bool
        )

    async def progress(self, lease: LeaseRef, progress: str) -> bool:
        """Record progress on a running task."""
        return await self._division.one(
            lease.id, lambda store: store.progress(lease, progress), bool
        )

    async def cancel(self, ids: Sequence[UUID], reason: str | None = None) -> list[CancelState]:
        """Cancel waiting tasks for good and ask running ones to stop."""
        return await self._division.routed(
            ids,
            lambda one: one,
            lambda store, part: store.cancel(part, reason),
            lambda state: state is not CancelState.NOT_FOUND,
        )

    async def reschedule(self, task_id: UUID, at: datetime | None) -> TaskStatus | None:
        """Move a waiting task to another time."""
        return await self._division.one(
            task_id, lambda store: store.reschedule(task_id, at), lambda status: status is not None
        )

    async def rescue(self, limit: int) -> list[Rescued]:
        """Take back tasks whose lease has expired."""
        return await self._division.in_turn(limit, lambda store, left: store.rescue(left))


def _shares(shards: Sequence[Shard], limit: int) -> list[tuple[Shard, int]]:
    """Divide a limit among shards; the first ones get what is left over."""
    share, more = divmod(limit, len(shards))
    shares = [(shard, share + (place < more)) for place, shard in enumerate(shards)]
    return [one for one in shares if one[1]]


async def _claim(shard: Shard, request: ClaimRequest, share: int) -> Claim:
    wanted = msgspec.structs.replace(request, limit=share)
    return await shard.ask(lambda store: store.claim(wanted), CLAIM_SECONDS)


def _id_of(one: LeaseRef | Settlement) -> UUID:
    return one.id


def _is_held(renewal: Renewal) -> bool:
    return renewal.held


def _id_of_task(task: NewTask) -> UUID:
    return task.id
