"""A session on the store in memory, for tests of users' code."""

from mainspring.adapters.memory.store import MemoryStore
from mainspring.core.session import Session
from mainspring.ports.clock import Clock


def memory_session(clock: Clock) -> Session:
    """Return a session whose tasks live in this process only, on the given clock."""
    return Session(MemoryStore(clock), clock)
