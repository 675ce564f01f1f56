"""Sessions on a store in memory, for tests of users' code."""

from mainspring.adapters.memory.locks import MemoryLocks
from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.locking import Locker
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


def memory_locker() -> Locker:
    """Return what handlers lock with, which nobody else sees."""
    # Extending a lock waits for real time to pass, which a clock that is moved by hand does not.
    clock = SystemClock()
    return Locker(MemoryLocks(clock), clock, SystemIds().worker_id())


def memory_planner(session: Session, clock: Clock) -> Planner:
    """Return a planner of the schedules in a store in memory."""
    return Planner(session.store, clock, SystemChance(), SystemIds())
