"""A scheduler: the duties that keep an installation going."""

from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.config import Settings
from mainspring.ports.store import Store
from mainspring.scheduler.janitor import Janitor, Keep
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.planner import Alert, Planner
from mainspring.scheduler.rescuer import RESCUE_SECONDS, Rescuer
from mainspring.scheduler.service import SchedulerService


def scheduler_service(
    store: Store, settings: Settings, alert: Alert | None = None
) -> SchedulerService:
    """Return the duties of one scheduler process on a store; `alert` is told of missed runs."""
    clock, chance = SystemClock(), SystemChance()
    loop = Loop(clock, chance)
    keep = Keep(
        history_days=settings.history_days,
        key_days=settings.key_days,
        silent_seconds=3 * settings.lease_seconds,
    )
    # With short leases it is meant to be quick, so it looks more often than every lease.
    rescue_seconds = min(RESCUE_SECONDS, settings.lease_seconds / 2)
    return SchedulerService(
        [
            Planner(store, clock, chance, SystemIds(), alert=alert),
            Rescuer(store, loop, seconds=rescue_seconds),
            Janitor(store, loop, keep),
        ]
    )
