"""The limit of a queue is divided among the databases; what cannot be divided changes nothing."""

from typing import Any

import pytest

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.domain.errors import InvalidValue
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.shards import even_map
from manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def parts(clock: ManualClock) -> list[MemoryStore]:
    return [MemoryStore(clock) for _ in range(3)]


@pytest.fixture
def store(parts: list[Any], clock: ManualClock) -> ShardedStore:
    shards = [Shard(at, f"shard {at + 1}", part, clock) for at, part in enumerate(parts)]
    return ShardedStore(shards, even_map(3))


async def test_each_has_its_part_of_the_queue_and_all_of_a_group(
    store: ShardedStore, parts: list[MemoryStore]
) -> None:
    whole, group = Limit(concurrency=50, rate=30.0), Limit(concurrency=2, rate=1.0)
    await store.set_limits("q", whole=whole, group=group)
    await store.set_group_limit("q", "acme", Limit(concurrency=1))
    found = [await part.limits("q") for part in parts]
    assert [one.queue for one in found] == [
        Limit(concurrency=17, rate=10.0, burst=10),
        Limit(concurrency=17, rate=10.0, burst=10),
        Limit(concurrency=16, rate=10.0, burst=10),
    ]
    assert all(one.group == group for one in found)
    assert all(one.groups == {"acme": Limit(concurrency=1)} for one in found)
    assert await store.limits("q") == QueueLimits(
        queue=whole, group=group, groups={"acme": Limit(concurrency=1)}
    )
    (state,) = await store.queues()
    assert (state.limit, state.group_limit) == (whole, group)


async def test_a_limit_below_their_number_is_refused_and_nothing_is_set(
    store: ShardedStore, parts: list[MemoryStore]
) -> None:
    for low in (Limit(concurrency=2), Limit(rate=2.0), Limit(rate=9.0, burst=2)):
        with pytest.raises(InvalidValue, match="in 3 databases"):
            await store.set_limits("q", whole=low, group=Limit(concurrency=1))
    assert [await part.limits("q") for part in parts] == [QueueLimits()] * 3
