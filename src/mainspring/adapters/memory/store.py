"""The whole store: every part of the port on one set of tables."""

from collections.abc import Callable

from mainspring.adapters.memory.dead_letters import MemoryDeadLetters
from mainspring.adapters.memory.housekeeping import MemoryHousekeeping
from mainspring.adapters.memory.plans import MemoryPlanning
from mainspring.adapters.memory.reads import MemoryReads
from mainspring.adapters.memory.register import MemoryQueues, MemoryWorkers
from mainspring.adapters.memory.tables import Tables
from mainspring.adapters.memory.tasks import MemoryTasks
from mainspring.domain.priority import LIMIT_SECONDS
from mainspring.ports.clock import Clock
from mainspring.ports.hooks import Hooks
from mainspring.ports.parts import Undivided
from mainspring.ports.store import Hint, Wakeups


class MemoryStore(
    MemoryTasks,
    MemoryDeadLetters,
    MemoryReads,
    MemoryQueues,
    MemoryWorkers,
    MemoryHousekeeping,
    MemoryPlanning,
    Undivided,
):
    """`ports.store.Store` for one process and one event loop.

    ``clock`` is the store's clock; ``limit_seconds`` is the longest a task waits in one level
    before it moves up; ``tables`` may be a kind of `Tables` that also watches what happens.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        hooks: Hooks | None = None,
        limit_seconds: float = LIMIT_SECONDS,
        tables: Callable[..., Tables] = Tables,
    ) -> None:
        MemoryTasks.__init__(self, tables(clock, hooks=hooks, limit_seconds=limit_seconds))
        MemoryPlanning.__init__(self, self._tables)

    def wakeups(self) -> Wakeups:
        """Return a new listener for hints."""
        return self._tables.board.listener()

    def announce(self) -> None:
        """Tell waiting workers that tasks are due."""
        self._tables.board.post(Hint.READY)

    async def close(self) -> None:
        """Nothing is held that needs closing."""
