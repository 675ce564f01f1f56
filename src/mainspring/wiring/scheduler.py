"""A scheduler: the duties that keep an installation going."""

import importlib
from typing import Final

from mainspring.adapters.postgres.queued import QueuedStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.config import Settings
from mainspring.core.declarations import deploy
from mainspring.core.registry import Registry
from mainspring.core.schedules import Schedules
from mainspring.core.service import Service
from mainspring.ports.coordination import Coordination
from mainspring.ports.hooks import Hooks
from mainspring.ports.store import Store
from mainspring.scheduler.feeder import Feeder
from mainspring.scheduler.janitor import Janitor, Keep
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.ownership import Ownership
from mainspring.scheduler.placement import PlacementWatch
from mainspring.scheduler.planner import Alert, MissedRuns, Planner
from mainspring.scheduler.rescuer import RESCUE_SECONDS, Rescuer
from mainspring.scheduler.service import SchedulerService

_MOVING: Final = "mainspring.wiring.moving"
"""Loaded only where there are several databases."""


def scheduler_ownership(
    store: Store, coordination: Coordination, settings: Settings, hooks: Hooks | None = None
) -> Ownership:
    """Return what owns a share of the partitions for one scheduler process."""
    return Ownership(
        coordination,
        store,
        SystemClock(),
        SystemChance(),
        member=SystemIds().worker_id(),
        ttl_seconds=settings.scheduler_ttl_seconds,
        hooks=hooks,
    )


def scheduler_service(
    store: Store, settings: Settings, ownership: Ownership, alert: Alert | None = None
) -> SchedulerService:
    """Return the duties of one scheduler process on a store; `alert` is told of missed runs.

    Planning and feeding the ready queue go by ownership. The other duties are safe to do twice, and
    so important that they go on while schedulers cannot meet. Each shard has duties of its own, so
    that one that is away holds up nothing in the others.
    """
    clock, chance = SystemClock(), SystemChance()
    loop = Loop(clock, chance)
    keep = Keep(
        history_days=settings.history_days,
        key_days=settings.key_days,
        silent_seconds=3 * settings.lease_seconds,
    )
    # With short leases it is meant to be quick, so it looks more often than every lease.
    rescue_seconds = min(RESCUE_SECONDS, settings.lease_seconds / 2)
    duties: list[Service] = [ownership, PlacementWatch(store, loop)]
    parts = store.parts()
    if len(parts) > 1:
        duties.append(importlib.import_module(_MOVING).move_watch(settings, store, loop))
    for number, part in enumerate(parts, 1):
        duties += [
            Planner(part, clock, chance, SystemIds(), alert=alert, ownership=ownership),
            Rescuer(part, loop, seconds=rescue_seconds),
            Janitor(part, loop, keep),
        ]
        if isinstance(part, QueuedStore):
            shard = number if len(parts) > 1 else None
            duties.append(Feeder(part.ready_queue, part, ownership, loop, clock, shard=shard))
    return SchedulerService(duties)


async def deploy_schedules(store: Store, registry: Registry | None) -> None:
    """Create or update the schedules that an app declares; raises `ScheduleExists`."""
    if registry is not None:
        await deploy(Schedules(store, SystemClock(), SystemIds()), registry)


def alert_of(registry: Registry | None) -> Alert | None:
    """Return what tells everyone of an app who wants to know of missed runs."""
    alerts = () if registry is None else tuple(registry.missed_run_alerts)

    def tell(missed: MissedRuns) -> None:
        for alert in alerts:
            alert(missed)

    return tell if alerts else None
