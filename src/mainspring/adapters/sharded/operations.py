"""Dead letters, queues, workers and housekeeping."""

from collections.abc import Awaitable
from functools import partial
from typing import Protocol
from uuid import UUID

import msgspec

from mainspring.adapters.sharded.part import ShardedPart
from mainspring.domain.errors import StoreUnavailable, Unavailable
from mainspring.domain.limits import Limit, QueueLimits, divided, together
from mainspring.domain.shards import ShardMap
from mainspring.ports.store import DeadLetterFilter
from mainspring.ports.whole import WholeStore
from mainspring.ports.workers import WorkerState


class Step(Protocol):
    """One step of a sweep over dead letters, in one shard."""

    def __call__(
        self, store: WholeStore, which: DeadLetterFilter, limit: int
    ) -> Awaitable[list[UUID]]:
        """Return the ids of those that were done."""
        ...


class ShardedOperations(ShardedPart):
    """`ports.store.DeadLetters`, `Queues`, `Workers` and `Housekeeping`."""

    async def replay(
        self, which: DeadLetterFilter, limit: int, payload: str | None = None
    ) -> list[UUID]:
        """Reopen dead letters, shard after shard, the lowest ids of each first."""
        return await self._swept(
            which, limit, lambda store, which, limit: store.replay(which, limit, payload)
        )

    async def discard(self, which: DeadLetterFilter, limit: int, reason: str) -> list[UUID]:
        """End dead letters as discarded, in the order of `replay`."""
        return await self._swept(
            which, limit, lambda store, which, limit: store.discard(which, limit, reason)
        )

    async def pause(self, queue: str) -> None:
        """Let no task of the queue start; raises when a shard was not told, the others were."""
        await self._division.everywhere(lambda store: store.pause(queue))
        await self._check_complete()

    async def resume(self, queue: str) -> None:
        """Let the tasks of the queue start again; raises as `pause` does."""
        await self._division.everywhere(lambda store: store.resume(queue))
        await self._check_complete()

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Divide the limit of a queue among the shards; groups are whole in one, so their limit
        goes to all as it is. Raises as `pause` does.
        """
        await self._check_complete()
        shards = self._division.shards
        parts = [None] * len(shards) if whole is None else divided(whole, len(shards))

        async def set_part(number: int, store: WholeStore) -> None:
            await store.set_limits(queue, whole=parts[number], group=group)

        await self._division.each(set_part)

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own, or none; raises as `pause` does."""
        await self._check_complete()
        await self._division.everywhere(
            lambda store: store.set_group_limit(queue, group_key, limit)
        )

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue; raises when a shard does not answer."""
        await self._check_complete()
        parts = await self._division.everywhere(lambda store: store.limits(queue))
        return msgspec.structs.replace(parts[0], queue=together([part.queue for part in parts]))

    async def beat(self, worker: WorkerState) -> None:
        """Record in every shard that a worker is alive."""
        await self._division.wherever(lambda store: store.beat(worker))

    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has drained."""
        await self._division.wherever(lambda store: store.leave(worker_id))

    async def workers(self) -> list[WorkerState]:
        """Return the workers that are registered, each as it was seen last."""
        answers = await self._division.wherever(lambda store: store.workers())
        found: dict[str, WorkerState] = {}
        for worker in (worker for workers in answers.values() for worker in workers):
            known = found.get(worker.worker_id)
            if known is None or _is_newer(worker, known):
                found[worker.worker_id] = worker
        return sorted(found.values(), key=lambda worker: worker.worker_id)

    async def forget_workers(self, silent_seconds: float) -> int:
        """Remove the workers that were not seen for so long."""
        answers = await self._division.wherever(lambda store: store.forget_workers(silent_seconds))
        return max(answers.values())

    async def prepare_history(self, months_ahead: int) -> list[str]:
        """Make the history partitions of this and the coming months in every shard."""
        answers = await self._division.wherever(lambda store: store.prepare_history(months_ahead))
        return sorted({name for names in answers.values() for name in names})

    async def drop_history(self, keep_days: float) -> list[str]:
        """Drop what is over in every shard."""
        answers = await self._division.wherever(lambda store: store.drop_history(keep_days))
        return sorted({name for names in answers.values() for name in names})

    async def forget_keys(self, keep_days: float, limit: int) -> int:
        """Forget old keys."""

        async def forget(store: WholeStore, left: int) -> list[None]:
            return [None] * await store.forget_keys(keep_days, left)

        return len(await self._division.in_turn(limit, forget))

    async def _check_complete(self) -> None:
        """Raise `StoreUnavailable` where shards were added of which this process was not told:
        what holds for a queue has to reach all of them.
        """
        await self._division.atlas.refresh()
        count, known = self._division.map.count, len(self._division.shards)
        if count > known:
            raise StoreUnavailable(
                f"the installation has {count} shards now, and the database_url of this process "
                f"names {known}; start it again with all of them"
            )

    async def _swept(self, which: DeadLetterFilter, limit: int, step: Step) -> list[UUID]:
        """Go on in the shard of the last id, then in the next ones. Lost ones are passed over,
        unless single dead letters of theirs are asked for.
        """
        division = self._division
        start = 0 if which.after is None else division.atlas.number_of(which.after)
        done: list[UUID] = []
        outage: Unavailable | None = None
        answers = 0
        for shard in division.shards[start:]:
            part = _in_shard(which, division.map, shard.number)
            if part.ids == ():
                continue
            try:
                done += await division.patient(
                    shard, partial(step, which=part, limit=limit - len(done))
                )
            except Unavailable as error:
                if which.ids is not None:
                    raise
                outage = error
                continue
            answers += 1
            if len(done) >= limit:
                break
        if outage is not None and not answers and which.after is None:
            raise outage
        return done


def _in_shard(which: DeadLetterFilter, shard_map: ShardMap, shard: int) -> DeadLetterFilter:
    """Narrow a filter to one shard of a sweep that goes over the shards one after the other."""
    if which.after is not None and shard_map.shard_of(which.after) != shard:
        which = msgspec.structs.replace(which, after=None)
    if which.ids is not None:
        ids = tuple(one for one in which.ids if shard_map.shard_of(one) == shard)
        which = msgspec.structs.replace(which, ids=ids)
    return which


def _is_newer(worker: WorkerState, known: WorkerState) -> bool:
    return known.seen_at is None or (worker.seen_at is not None and worker.seen_at > known.seen_at)
