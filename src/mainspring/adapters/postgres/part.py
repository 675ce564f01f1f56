"""What every part of the PostgreSQL store works with."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mainspring.adapters.postgres.pools import Connections
from mainspring.ports.hooks import Hooks


class Announcer(Protocol):
    """Sends hints to whoever waits, soon and coalesced."""

    def ready(self) -> None:
        """Say that tasks are due."""
        ...

    def cancel(self) -> None:
        """Say that a running task is to stop."""
        ...

    def schedule(self) -> None:
        """Say that a schedule changed."""
        ...


class StorePart:
    """A part of the store. ``now`` stands in for the server's clock in tests; it returns None in
    production, which leaves the time to the server.
    """

    def __init__(
        self,
        connections: Connections,
        announcer: Announcer,
        hooks: Hooks,
        now: Callable[[], datetime | None],
        limit_seconds: float,
    ) -> None:
        self._connections = connections
        self._main = connections.main
        self._reads = connections.reads
        self._announcer = announcer
        self._hooks = hooks
        self._now = now
        self._limit_seconds = limit_seconds
        self._leaving_partitions: tuple[int, ...] = ()

    def _is_leaving(self) -> bool:
        """Return whether partitions are just moving away, as far as this process knows."""
        return bool(self._leaving_partitions)
