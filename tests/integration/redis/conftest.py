"""Stores with a ready queue before them."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from integration.redis.bench import SLICES, Bench, Opener, ready
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.redis import link as links
from mainspring.config import Settings
from mainspring.wiring.redis import redis_ready_queue


@pytest.fixture
async def opener(
    database: str, valkey_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Opener]:
    """Opens stores whose claims find nothing but through the Redis of a URL."""
    monkeypatch.setattr(links, "_AWAY_SECONDS", (0.05, 0.2))
    opened: list[Bench] = []

    async def open_one(url: str, slices: int = SLICES, **fields: Any) -> Bench:
        settings = Settings(
            redis_url=url, redis_prefix=valkey_prefix, redis_slices=slices, **fields
        )
        queue = redis_ready_queue(settings)
        store = QueuedStore(PoolOptions(dsn=database), queue)
        opened.append(Bench(store, await asyncpg.connect(database)))
        return await ready(opened[-1])

    yield open_one
    for bench in opened:
        await bench.store.close()
        await bench.sql.close()
