"""Asking the right shards, at the same time, and putting their answers together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from mainspring.adapters.sharded.atlas import Atlas
from mainspring.adapters.sharded.routing import Route
from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import PartitionMoving, Unavailable
from mainspring.domain.ids import key_tail
from mainspring.domain.shards import ShardMap
from mainspring.ports.whole import WholeStore

T = TypeVar("T")
Item = TypeVar("Item")
Call = Callable[[WholeStore], Awaitable[T]]

MOVING_SECONDS: Final = 4.0
"""So long a call waits for a partition that is just moving; its callers wait no longer either."""

LOOK_SECONDS: Final = 0.05


class Division:
    """The shards and the map; every part of the sharded store works with it."""

    def __init__(self, shards: Sequence[Shard], shard_map: ShardMap) -> None:
        self.shards = tuple(shards)
        self.atlas = Atlas(self.shards, shard_map)

    @property
    def map(self) -> ShardMap:
        """The map as this process knows it."""
        return self.atlas.map

    @property
    def directory(self) -> Shard:
        """The shard that keeps what belongs to no task."""
        return self.shards[0]

    async def one(
        self,
        task_id: UUID,
        call: Call[T],
        is_there: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Ask the shard of a task or a schedule. An answer that says that nothing `is_there` is
        believed once the map is known not to have changed.
        """
        (answer,) = await self.routed([task_id], lambda one: one, partial(_alone, call), is_there)
        return answer

    async def look(self, task_id: UUID, call: Call[T], is_there: Callable[[T], bool]) -> T:
        """Ask the shard of a task or a schedule for what is read alone, which it answers as well
        while the partition moves. Otherwise as `one`.
        """
        before = self.map
        answer = await self.shards[self.atlas.number_of(task_id)].ask(call)
        if is_there(answer):
            return answer
        await self.atlas.refresh()
        if self.atlas.changed([task_id], before):
            return await self.look(task_id, call, is_there)
        return answer

    async def named(
        self, name: str, call: Call[T], is_there: Callable[[T], bool] = lambda _: True
    ) -> T:
        """Ask the shard of a schedule by its name, which decides the partition of its id."""
        return await self.one(UUID(int=key_tail(name)), call, is_there)

    async def everywhere(self, call: Call[T]) -> list[T]:
        """Return the answers of all shards; raises when one of them does not give any, after the
        others have.
        """
        answers = await _together([(shard, call) for shard in self.shards])
        return [_checked(answer) for answer in answers]

    async def each(self, call: Callable[[int, WholeStore], Awaitable[T]]) -> list[T]:
        """As `everywhere`; `call` is told the number of each shard."""
        answers = await _together([(shard, partial(call, shard.number)) for shard in self.shards])
        return [_checked(answer) for answer in answers]

    async def wherever(self, call: Call[T], seconds: float | None = None) -> dict[int, T]:
        """Return the answers of those shards that give one; raises when none does."""
        answers = await _together([(shard, call) for shard in self.shards], seconds)
        return answered(dict(enumerate(answers)))

    async def in_turn(
        self, limit: int, call: Callable[[WholeStore, int], Awaitable[list[T]]]
    ) -> list[T]:
        """Ask shard after shard for what is left of the limit; raises when none answers."""
        found: list[T] = []
        answers: dict[int, list[T] | BaseException] = {}
        for shard in self.shards:
            (answer,) = await _together([(shard, partial(_left, call, limit - len(found)))])
            answers[shard.number] = answer
            if not isinstance(answer, BaseException):
                found += answer
            if len(found) >= limit:
                return found
        answered(answers)
        return found

    async def wherever_of(
        self, numbers: Collection[int], call: Callable[[int, WholeStore], Awaitable[T]]
    ) -> dict[int, T]:
        """As `wherever`, of these shards alone; `call` is told the number of each."""
        known = {*range(len(self.shards))}
        chosen = [self.shards[number] for number in sorted(known.intersection(numbers))]
        answers = await _together([(shard, partial(call, shard.number)) for shard in chosen])
        return answered({shard.number: one for shard, one in zip(chosen, answers, strict=True)})

    async def routed(
        self,
        items: Sequence[Item],
        id_of: Callable[[Item], UUID],
        call: Callable[[WholeStore, list[Item]], Awaitable[list[T]]],
        is_there: Callable[[T], bool] = lambda _: True,
    ) -> list[T]:
        """Hand each thing to its shard, and return the answers in the order of the things.

        What belongs to a partition that is just moving waits for it, for `MOVING_SECONDS` at most;
        the rest does not. An answer that says that nothing `is_there` is believed once the map is
        known not to have changed.

        When a shard gives no answer, what was done in others stands; then the error is
        `OutcomeUnknown`.
        """
        route = Route(self.shards, self.atlas, items, id_of, is_there)
        loop = asyncio.get_running_loop()
        until = loop.time() + MOVING_SECONDS
        while not await route.go(call):
            if loop.time() >= until:
                raise route.moving()
            await self.directory.clock.sleep(LOOK_SECONDS)
            await self.atlas.refresh()
        return route.answers()

    async def among(
        self,
        ids: Sequence[UUID],
        call: Callable[[WholeStore, list[UUID]], Awaitable[T]],
        missing_of: Callable[[T, Collection[UUID]], Collection[UUID]],
    ) -> list[T | BaseException]:
        """Ask each shard about those of the ids that are its own. What is `missing_of` an answer is
        asked for again when the map turns out to have changed.
        """
        before = self.map
        groups = grouped(ids, self.atlas.number_of)
        answers: list[T | BaseException] = await _together(
            [(self.shards[number], partial(_part, call, group)) for number, group in groups.items()]
        )
        missing = [
            one
            for group, answer in zip(groups.values(), answers, strict=True)
            if not isinstance(answer, BaseException)
            for one in missing_of(answer, group)
        ]
        if missing:
            await self.atlas.refresh()
            if self.atlas.changed(missing, before):
                return answers + await self.among(missing, call, missing_of)
        return answers

    async def settled(self, ids: Collection[UUID], seconds: float) -> bool:
        """Wait until the partitions of these can be written to again, so long at most."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await self.atlas.refresh()
        while any(self.atlas.is_moving(one) for one in ids):
            if loop.time() >= until:
                return False
            await self.directory.clock.sleep(LOOK_SECONDS)
            await self.atlas.refresh()
        return True

    async def patient(self, shard: Shard, call: Call[T]) -> T:
        """Ask a shard that may just refuse some of what is asked, again until it does not."""
        loop = asyncio.get_running_loop()
        until = loop.time() + MOVING_SECONDS
        while True:
            try:
                return await shard.ask(call)
            except PartitionMoving:
                if loop.time() >= until:
                    raise
            await self.directory.clock.sleep(LOOK_SECONDS)

    def missing(self) -> tuple[str, ...]:
        """Return the names of the shards that do not answer, or did not a moment ago."""
        return tuple(shard.name for shard in self.shards if shard.was_lost_lately)


def answered(answers: dict[int, T | BaseException]) -> dict[int, T]:
    """Return what was answered; raises when nothing was, and errors that are no outage."""
    good: dict[int, T] = {}
    outage: BaseException | None = None
    for number, answer in answers.items():
        if not isinstance(answer, BaseException):
            good[number] = answer
        elif isinstance(answer, Unavailable):
            outage = answer
        else:
            raise answer
    if not good and outage is not None:
        raise outage
    return good


def grouped(ids: Iterable[UUID], number_of: Callable[[UUID], int]) -> dict[int, list[UUID]]:
    """Sort ids by their shard."""
    groups: dict[int, list[UUID]] = {}
    for one in ids:
        groups.setdefault(number_of(one), []).append(one)
    return groups


async def _alone(call: Call[T], store: WholeStore, _: list[UUID]) -> list[T]:
    return [await call(store)]


def _part(
    call: Callable[[WholeStore, list[UUID]], Awaitable[T]], part: list[UUID], store: WholeStore
) -> Awaitable[T]:
    return call(store, part)


def _left(
    call: Callable[[WholeStore, int], Awaitable[list[T]]], left: int, store: WholeStore
) -> Awaitable[list[T]]:
    return call(store, left)


async def _together(
    asked: Sequence[tuple[Shard, Call[T]]], seconds: float | None = None
) -> list[T | BaseException]:
    return await asyncio.gather(
        *(shard.ask(call, seconds) for shard, call in asked), return_exceptions=True
    )


def _checked(answer: T | BaseException) -> T:
    if isinstance(answer, BaseException):
        raise answer
    return answer
