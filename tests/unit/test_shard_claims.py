"""A claim that went round the shards says whether each of them answered."""

from typing import Any

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.sharded.shard import Shard
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.domain.errors import OutcomeUnknown
from mainspring.domain.ids import make_id
from mainspring.domain.shards import even_map
from mainspring.domain.task import LeaseRef, NewTask
from mainspring.ports.store import Claim, ClaimRequest
from manual_clock import ManualClock

REQUEST = ClaimRequest(worker_id="w", limit=10, lease_seconds=60.0, task_types=("t",))


class Forgetful(MemoryStore):
    """Leases, and loses the answer."""

    async def claim(self, request: ClaimRequest) -> Claim:
        await super().claim(request)
        raise OutcomeUnknown("the connection broke")


async def test_who_claims_learns_that_a_shard_gave_no_answer() -> None:
    clock = ManualClock()
    parts: list[Any] = [MemoryStore(clock), Forgetful(clock)]
    shards = [Shard(at, f"shard {at + 1}", part, clock) for at, part in enumerate(parts)]
    store = ShardedStore(shards, even_map(2))
    ids = [make_id(1, tail) for tail in range(64)]
    (mine, other) = ({one for one in ids if store.shard_of(one) == at} for at in (0, 1))
    await store.submit(
        [NewTask(id=min(mine), task_type="t"), NewTask(id=min(other), task_type="t")]
    )
    claim = await store.claim(REQUEST)
    assert [lease.id for lease in claim.leases] == [min(mine)]
    assert claim.is_partial
    assert await parts[1].leases_of("w") == [LeaseRef(min(other), 1)]
    await store.close()


async def test_a_claim_that_all_answered_is_whole() -> None:
    clock = ManualClock()
    parts: list[Any] = [MemoryStore(clock), MemoryStore(clock)]
    shards = [Shard(at, f"shard {at + 1}", part, clock) for at, part in enumerate(parts)]
    store = ShardedStore(shards, even_map(2))
    assert not (await store.claim(REQUEST)).is_partial
    await store.close()
