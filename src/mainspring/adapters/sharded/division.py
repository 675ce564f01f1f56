"""Asking the right shards, at the same time, and putting their answers together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import OutcomeUnknown, Unavailable
from mainspring.domain.ids import key_tail
from mainspring.domain.shards import ShardMap
from mainspring.ports.whole import WholeStore

T = TypeVar("T")
Item = TypeVar("Item")
Call = Callable[[WholeStore], Awaitable[T]]


class Division:
    """The shards and the map; every part of the sharded store works with it."""

    def __init__(self, shards: Sequence[Shard], shard_map: ShardMap) -> None:
        self.shards = tuple(shards)
        self.map = shard_map

    @property
    def directory(self) -> Shard:
        """The shard that keeps what belongs to no task."""
        return self.shards[0]

    def of(self, task_id: UUID) -> Shard:
        """Return the shard of a task or a schedule."""
        return self.shards[self.map.shard_of(task_id)]

    def named(self, name: str) -> Shard:
        """Return the shard of a schedule by its name, which decides the partition of its id."""
        return self.of(UUID(int=key_tail(name)))

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
        chosen = [self.shards[number] for number in sorted(numbers)]
        answers = await _together([(shard, partial(call, shard.number)) for shard in chosen])
        return answered({shard.number: one for shard, one in zip(chosen, answers, strict=True)})

    def grouped(
        self, items: Iterable[Item], id_of: Callable[[Item], UUID]
    ) -> dict[int, list[Item]]:
        """Sort things by their shard."""
        groups: dict[int, list[Item]] = {}
        for item in items:
            groups.setdefault(self.map.shard_of(id_of(item)), []).append(item)
        return groups

    async def routed(
        self,
        items: Sequence[Item],
        id_of: Callable[[Item], UUID],
        call: Callable[[WholeStore, list[Item]], Awaitable[list[T]]],
    ) -> list[T]:
        """Hand each thing to its shard, and return the answers in the order of the things.

        When a shard gives no answer, what was done in others stands; then the error is
        `OutcomeUnknown`.
        """
        if not items:
            return []
        groups = self.grouped(items, id_of)
        if len(groups) == 1:
            ((number, _),) = groups.items()
            return await self.shards[number].ask(lambda store: call(store, list(items)))
        answers = await _together(
            [
                (self.shards[number], lambda store, part=group: call(store, part))  # type: ignore[misc]
                for number, group in groups.items()
            ]
        )
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise _partial(failures[0], is_alone=len(failures) == len(answers))
        given = {
            number: iter(_checked(answer)) for number, answer in zip(groups, answers, strict=True)
        }
        return [next(given[self.map.shard_of(id_of(item))]) for item in items]

    async def among(
        self, ids: Sequence[UUID], call: Callable[[WholeStore, list[UUID]], Awaitable[T]]
    ) -> list[T | BaseException]:
        """Ask each shard about those of the ids that are its own."""
        groups = self.grouped(ids, lambda one: one)
        return await _together(
            [
                (self.shards[number], lambda store, part=group: call(store, part))  # type: ignore[misc]
                for number, group in groups.items()
            ]
        )

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


def _partial(error: BaseException, *, is_alone: bool) -> BaseException:
    if is_alone or not isinstance(error, Unavailable):
        return error
    return OutcomeUnknown(f"done in a part of the task store alone: {error.message}")
