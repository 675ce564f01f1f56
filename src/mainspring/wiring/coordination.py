"""Where schedulers meet."""

import importlib
from typing import Final

from mainspring.adapters.postgres.coordination import PostgresCoordination
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.ports.coordination import Coordination
from mainspring.wiring.connecting import pool_options

_ETCD: Final = "mainspring.wiring.etcd"
"""Loaded only where etcd is used: it takes a while."""


def open_coordination(settings: Settings) -> Coordination:
    """Return the configured coordination. Nothing is connected before the first use."""
    if settings.coordination == "etcd":
        coordination: Coordination = importlib.import_module(_ETCD).etcd_coordination(settings)
        return coordination
    return _in_database(settings)


async def coordination_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Say of each server that is there for coordination alone whether it is well."""
    if settings.coordination != "etcd":
        return []
    found: list[tuple[bool, str]] = await importlib.import_module(_ETCD).etcd_findings(settings)
    return found


async def forget_schedulers(settings: Settings) -> None:
    """End the sessions of all schedulers that meet in the database."""
    coordination = _in_database(settings)
    try:
        await coordination.forget_members()
    finally:
        await coordination.close()


def _in_database(settings: Settings) -> PostgresCoordination:
    return PostgresCoordination(pool_options(settings), SystemClock())
