"""The ready queue before the task store, where there is one."""

import importlib
from typing import Final

from mainspring.config import Settings
from mainspring.ports.ready_queue import ReadyQueue

_REDIS: Final = "mainspring.wiring.redis"
"""Loaded only where Redis is used: it takes a while."""


def open_ready_queue(settings: Settings, shard: int | None = None) -> ReadyQueue | None:
    """Return the configured ready queue, if there is one beside the database; each shard, by its
    number, has one of its own. Nothing is connected before the first use.
    """
    if settings.ready_queue != "redis":
        return None
    queue: ReadyQueue = importlib.import_module(_REDIS).redis_ready_queue(settings, shard)
    return queue


async def ready_queue_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Say whether the server that is there for the ready queue and for locks is well."""
    if not settings.redis_url:
        return []
    found: list[tuple[bool, str]] = await importlib.import_module(_REDIS).redis_findings(settings)
    return found
