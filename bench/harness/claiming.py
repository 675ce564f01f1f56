"""What a claim costs, asked of the store directly, without workers beside it."""

import asyncio
import statistics
import time
from typing import Final

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.store import PostgresStore, open_store
from mainspring.adapters.system import SystemIds
from mainspring.domain.task import Completed, NewTask, Settlement
from mainspring.ports.store import ClaimRequest

CLAIMS: Final = 20
CLAIM_TASKS: Final = 100
_TASK_TYPE: Final = "noop"


def claim_costs(dsn: str, *, with_empty: bool = True) -> dict[str, float]:
    """Return the median milliseconds of a claim of 100 tasks, and of one that finds nothing."""
    return asyncio.run(_measure(dsn, with_empty=with_empty))


async def _measure(dsn: str, *, with_empty: bool) -> dict[str, float]:
    store = await open_store(PoolOptions(dsn=dsn))
    ids = SystemIds()
    figures: dict[str, float] = {}
    try:
        if with_empty:
            empty = [await _timed(store) for _ in range(CLAIMS)]
            figures["empty_claim_ms"] = round(statistics.median(empty), 2)
        batch = [
            NewTask(id=ids.task_id(), task_type=_TASK_TYPE, payload='{"payload":{}}')
            for _ in range(CLAIMS * CLAIM_TASKS)
        ]
        for start in range(0, len(batch), 1000):
            await store.submit(batch[start : start + 1000])
        full = [await _timed(store) for _ in range(CLAIMS)]
        figures["claim_ms"] = round(statistics.median(full), 2)
    finally:
        await store.close()
    return figures


async def _timed(store: PostgresStore) -> float:
    request = ClaimRequest(
        worker_id="bench",
        limit=CLAIM_TASKS,
        lease_seconds=60.0,
        task_types=(_TASK_TYPE,),
        queues=None,
        lanes=None,
        served={},
    )
    started = time.perf_counter()
    claim = await store.claim(request)
    elapsed = (time.perf_counter() - started) * 1e3
    if claim.leases:
        await store.settle(
            [Settlement(one.id, one.fencing_token, Completed()) for one in claim.leases]
        )
    return elapsed
