"""Things on their way to their shards, some of which may just be changing theirs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from mainspring.adapters.sharded.atlas import Atlas
from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import OutcomeUnknown, PartitionMoving, Unavailable
from mainspring.ports.whole import WholeStore

T = TypeVar("T")
Item = TypeVar("Item")
Call = Callable[[WholeStore, list[Item]], Awaitable[list[T]]]


class Route(Generic[Item, T]):
    """Some things, and what was answered for each of them so far."""

    def __init__(
        self,
        shards: Sequence[Shard],
        atlas: Atlas,
        items: Sequence[Item],
        id_of: Callable[[Item], UUID],
        is_there: Callable[[T], bool],
    ) -> None:
        self._shards = shards
        self._atlas = atlas
        self._items = items
        self._ids = [id_of(item) for item in items]
        self._is_there = is_there
        self._given: dict[int, T] = {}
        self._left: list[int] = [*range(len(items))]
        self._refusal: PartitionMoving | None = None

    async def go(self, call: "Call[Item, T]") -> bool:
        """Ask for what is left, but for what has to wait; True when nothing is left.

        Raises what a shard raises, but for the refusal of what is just moving.
        """
        if not self._left:
            return True
        before = self._atlas.map
        going = [place for place in self._left if not self._atlas.holds_back(self._ids[place])]
        groups: dict[int, list[int]] = {}
        for place in going:
            groups.setdefault(self._atlas.number_of(self._ids[place]), []).append(place)
        answers = await asyncio.gather(
            *(
                self._shards[number].ask(
                    partial(_asked, call, [self._items[place] for place in group])
                )
                for number, group in groups.items()
            ),
            return_exceptions=True,
        )
        absent: list[int] = []
        failures: list[BaseException] = []
        for group, answer in zip(groups.values(), answers, strict=True):
            if isinstance(answer, PartitionMoving):
                self._refusal = answer
            elif isinstance(answer, BaseException):
                failures.append(answer)
            else:
                self._given |= dict(zip(group, answer, strict=True))
                absent += [place for place in group if not self._is_there(self._given[place])]
        if absent:
            await self._doubt(absent, before)
        if failures:
            raise _partial(failures[0], is_alone=not self._given)
        self._left = [place for place in self._left if place not in self._given]
        return not self._left

    async def _doubt(self, absent: Sequence[int], before: object) -> None:
        """Take back that something is not there if it may be elsewhere by now."""
        await self._atlas.refresh()
        if self._atlas.map is before:
            return
        for place in absent:
            del self._given[place]

    def moving(self) -> PartitionMoving:
        """Return the error for what still has to wait."""
        return self._refusal or PartitionMoving(
            "this belongs to a partition that moves to another shard of the task store; try again "
            "in a moment"
        )

    def answers(self) -> list[T]:
        """Return the answers in the order of the things."""
        return [self._given[place] for place in range(len(self._items))]


def _asked(call: "Call[Item, T]", part: list[Item], store: WholeStore) -> Awaitable[list[T]]:
    return call(store, part)


def _partial(error: BaseException, *, is_alone: bool) -> BaseException:
    if is_alone or not isinstance(error, Unavailable):
        return error
    return OutcomeUnknown(f"done in a part of the task store alone: {error.message}")
