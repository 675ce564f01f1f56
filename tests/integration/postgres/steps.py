"""Short ways to say what the tests of this folder do with a store on the server's own clock."""

import random
import time
from typing import Any
from uuid import UUID

from mainspring.domain.ids import make_id, random_bits_needed
from mainspring.domain.task import Completed, Lease, NewTask, Settlement
from mainspring.ports.store import Claim, ClaimRequest, Store

_CHANCE = random.Random()


def new_task(**fields: Any) -> NewTask:
    bits = _CHANCE.getrandbits(random_bits_needed())
    task_id = make_id(time.time_ns() // 1_000_000, bits, fields.get("key"))
    return NewTask(**{"id": task_id, "task_type": "mail", **fields})


async def submit(store: Store, count: int = 1, **fields: Any) -> list[UUID]:
    answers = await store.submit([new_task(**fields) for _ in range(count)])
    return [answer.id for answer in answers]


async def ask(store: Store, limit: int = 1, **fields: Any) -> Claim:
    request = {"worker_id": "w1", "limit": limit, "lease_seconds": 60.0, "task_types": ("mail",)}
    return await store.claim(ClaimRequest(**{**request, **fields}))


async def claim(store: Store, limit: int = 1, **fields: Any) -> list[Lease]:
    return (await ask(store, limit, **fields)).leases


def completed(lease: Lease, result: str | None = None) -> Settlement:
    return Settlement(lease.id, lease.fencing_token, Completed(result))
