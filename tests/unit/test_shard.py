"""When a shard counts as lost, and when only one call failed."""

from typing import Any

import pytest

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.sharded.shard import Shard
from mainspring.domain.errors import OutcomeUnknown, PartitionMoving, StoreBusy, StoreUnavailable
from manual_clock import ManualClock


@pytest.fixture
def shard() -> Shard:
    clock = ManualClock()
    store: Any = MemoryStore(clock)
    return Shard(0, "shard 1", store, clock)


def failing(error: Exception) -> Any:
    async def call(_: object) -> None:
        raise error

    return call


@pytest.mark.parametrize("kind", [StoreBusy, PartitionMoving])
async def test_one_that_refuses_something_is_asked_for_the_rest(
    shard: Shard, kind: type[StoreUnavailable]
) -> None:
    with pytest.raises(kind):
        await shard.ask(failing(kind("not now")))
    assert not shard.is_lost
    await shard.close()


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown])
async def test_one_that_does_not_answer_is_not_asked_again(
    shard: Shard, kind: type[StoreUnavailable]
) -> None:
    with pytest.raises(kind, match="shard 1: no answer"):
        await shard.ask(failing(kind("no answer")))
    assert shard.is_lost
    await shard.close()
