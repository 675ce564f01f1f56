"""Sessions on a store in memory, for tests of users' code."""

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemChance, SystemIds
from mainspring.core.session import Session
from mainspring.ports.clock import Clock
from mainspring.scheduler.planner import Planner
from mainspring.wiring.sessions import Sessions


def memory_sessions(clock: Clock) -> Sessions:
    """Return sessions that all work on one store in this process, on the given clock."""
    store = MemoryStore(clock)

    async def open_session() -> Session:
        return Session(store, clock, SystemIds())

    return Sessions(open_session)


def memory_planner(session: Session, clock: Clock) -> Planner:
    """Return a planner of the schedules in a store in memory."""
    return Planner(session.store, clock, SystemChance(), SystemIds())
