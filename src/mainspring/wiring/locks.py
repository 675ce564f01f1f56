"""Locks, as the settings have them."""

import importlib
from typing import Final

from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.config import Settings
from mainspring.core.locking import Locker, no_locker
from mainspring.core.registry import Registry
from mainspring.domain.errors import InvalidConfiguration
from mainspring.ports.locks import Locks
from mainspring.worker.exclusion import exclusive_types

_REDIS: Final = "mainspring.wiring.redis"
"""Loaded only where Redis is used: it takes a while."""


def handler_locker(settings: Settings) -> Locker:
    """Return what the handlers of this process lock with; raises `InvalidConfiguration`."""
    if not settings.redis_url:
        return no_locker()
    return Locker(_open(settings), SystemClock(), SystemIds().worker_id())


def worker_locks(settings: Settings, registry: Registry) -> Locks | None:
    """Return the locks for the exclusive tasks of an app, if it has any; raises
    `InvalidConfiguration` when it has and there is nowhere to keep them.
    """
    exclusive = exclusive_types(registry)
    if not exclusive:
        return None
    if not settings.redis_url:
        raise InvalidConfiguration(
            f"task type {exclusive[0]!r} is exclusive and redis_url is empty; locks are kept in "
            "Redis, so say where it is",
            field="redis_url",
        )
    return _open(settings)


def _open(settings: Settings) -> Locks:
    locks: Locks = importlib.import_module(_REDIS).redis_locks(settings)
    return locks
