"""Pages that are put together from those of shards: every task exactly once, newest first."""

import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.domain.cursors import cursor_before, read_cursor
from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import PARTITIONS, make_id, random_bits_needed
from mainspring.domain.shards import ShardMap
from mainspring.domain.task import NewTask
from mainspring.ports.store import Page, TaskFilter
from manual_clock import ManualClock


class Hasty(MemoryStore):
    """Gives out pages that are short, or empty, and still have a cursor, as a store does that looks
    for few tasks among many.
    """

    def __init__(self, clock: ManualClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.chance = chance

    async def page(self, which: TaskFilter, limit: int, cursor: str | None = None) -> Page:
        page = await super().page(which, limit, cursor)
        if not page.tasks or self.chance.random() < 0.4:
            return page
        # It has looked down to one of them, or just above the first.
        seen = self.chance.randrange(len(page.tasks) + 1)
        if seen:
            return Page(page.tasks[:seen], cursor_before(page.tasks[seen - 1].task_id))
        return Page([], cursor_before(UUID(int=page.tasks[0].task_id.int + 1)))


class Scan:
    """A sharded store, and tasks that are made while it is listed."""

    def __init__(self, seed: int, count: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        owners = [*range(count), *(self.chance.randrange(count) for _ in range(PARTITIONS - count))]
        self.chance.shuffle(owners)
        stores: list[Any] = [Hasty(self.clock, self.chance) for _ in range(count)]
        shards = [
            Shard(number, f"shard {number + 1}", store, self.clock)
            for number, store in enumerate(stores)
        ]
        self.store = ShardedStore(shards, ShardMap(tuple(owners)))

    async def submit(self, count: int) -> set[UUID]:
        milliseconds = int(self.clock.now().timestamp() * 1000)
        tasks = [
            NewTask(
                # Of about the same time, so that new ones come before and behind the cursor.
                id=make_id(
                    milliseconds + self.chance.randrange(50),
                    self.chance.getrandbits(random_bits_needed()),
                ),
                task_type="t",
            )
            for _ in range(count)
        ]
        return {answer.id for answer in await self.store.submit(tasks)}


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 5),
    size=st.integers(0, 60),
    limit=st.integers(1, 12),
    coming=st.integers(0, 4),
)
async def test_each_task_that_exists_throughout_is_listed_once(
    seed: int, count: int, size: int, limit: int, coming: int
) -> None:
    scan = Scan(seed, count)
    there = await scan.submit(size)
    listed: list[UUID] = []
    cursor: str | None = None
    for _ in range(20 * (size + 10)):
        page = await scan.store.page(TaskFilter(), limit, cursor)
        assert len(page.tasks) <= limit
        assert not page.partial
        listed += [task.task_id for task in page.tasks]
        cursor = page.cursor
        if cursor is None:
            break
        if coming:
            coming -= 1
            await scan.submit(3)
    assert cursor is None
    assert listed == sorted(listed, key=lambda one: one.int, reverse=True)
    assert len(set(listed)) == len(listed)
    assert there <= set(listed)


def test_a_cursor_that_was_not_given_out_is_refused() -> None:
    one = make_id(1_700_000_000_000, 5)
    cursor = cursor_before(one)
    assert read_cursor(cursor) == one
    for other in ("", "x", str(one), cursor[:-2] + "AA", "\u00e9" * 28):
        with pytest.raises(InvalidValue, match="start again without a cursor"):
            read_cursor(other)
