"""Work inside a transaction that the caller holds on a connection of its own."""

from collections.abc import Sequence
from typing import Any, Protocol

from mainspring.domain.task import LeaseRef, NewTask, Submission


class CallerTransactions(Protocol):
    """Runs our writes on the caller's connection, so that they commit or vanish with its own.

    A connection is one of asyncpg, psycopg 3 (async or not), SQLAlchemy (async or not, connection
    or session) or Django. Anything else raises `InvalidValue` for the field `connection`.
    """

    async def submit(self, connection: Any, tasks: Sequence[NewTask]) -> list[Submission]:
        """Submit as `TaskStore.submit` does; the tasks exist once the caller commits."""
        ...

    async def complete(self, connection: Any, lease: LeaseRef, result: str | None) -> bool:
        """Complete a running task once the caller commits; False when the lease is lost, in which
        case the caller must roll back.
        """
        ...
