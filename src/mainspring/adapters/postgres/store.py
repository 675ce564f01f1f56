"""The task store in PostgreSQL, put together from its parts."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from mainspring.adapters.postgres.access import Accessing
from mainspring.adapters.postgres.control import Controlling
from mainspring.adapters.postgres.dead_letters import DeadLettering
from mainspring.adapters.postgres.figures import Figuring
from mainspring.adapters.postgres.housekeeping import Housekeeping
from mainspring.adapters.postgres.leases import Leasing
from mainspring.adapters.postgres.migrate import check
from mainspring.adapters.postgres.partitions import Epoching
from mainspring.adapters.postgres.plans import Planning
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.pools import Connections
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.adapters.postgres.schedules import Scheduling
from mainspring.adapters.postgres.settle import Settling
from mainspring.adapters.postgres.shards import label_of
from mainspring.adapters.postgres.submit import Submitting
from mainspring.adapters.postgres.wakeups import HintSender, PostgresWakeups
from mainspring.adapters.postgres.workers import Registering
from mainspring.domain.priority import LIMIT_SECONDS
from mainspring.domain.shards import ShardLabel, check_alone
from mainspring.ports.hooks import Hooks, NoHooks
from mainspring.ports.parts import Undivided
from mainspring.ports.store import Wakeups

_READ_SHARD: Final = QUERIES["read_shard"]


class PostgresStore(
    Submitting,
    Settling,
    Leasing,
    Controlling,
    DeadLettering,
    Registering,
    Housekeeping,
    Figuring,
    Accessing,
    Planning,
    Scheduling,
    Epoching,
    Undivided,
):
    """`ports.store.Store` on PostgreSQL, with `ports.access.Access` and `ports.figures.Figures`.

    Nothing is connected before the first use.

    ``limit_seconds`` is the longest a task waits in one level before it moves up. ``now`` replaces
    the server's clock in tests; None means the server's.
    """

    def __init__(
        self,
        options: PoolOptions,
        *,
        hooks: Hooks | None = None,
        limit_seconds: float = LIMIT_SECONDS,
        now: Callable[[], datetime | None] | None = None,
    ) -> None:
        connections = Connections(options)
        self._sender = HintSender(connections)
        super().__init__(
            connections,
            self._sender,
            NoHooks() if hooks is None else hooks,
            server_clock if now is None else now,
            limit_seconds,
        )

    async def label(self) -> ShardLabel | None:
        """Return which shard this is, and what its map says now."""
        rows = await self._connections.leases.fetch(_READ_SHARD)
        label = label_of(rows[0]) if rows else None
        self._leaving_partitions = () if label is None else label.moving
        return label

    def wakeups(self) -> Wakeups:
        """Return a new listener for hints."""
        return PostgresWakeups(self._connections.options.listen_dsn)

    def announce(self) -> None:
        """Tell waiting workers that tasks are due."""
        self._sender.ready()

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._sender.close()
        await self._connections.close()


async def open_store(
    options: PoolOptions,
    *,
    hooks: Hooks | None = None,
    limit_seconds: float = LIMIT_SECONDS,
    now: Callable[[], datetime | None] | None = None,
) -> PostgresStore:
    """Open the store after a look at the server's version and the schema.

    Raises `UnsupportedServer`, `MigrationNeeded`, `MigrationDrift`, `StoreUnavailable`, and
    `InvalidConfiguration` for one shard of several.
    """
    check_alone(await shard_label(options))
    return PostgresStore(options, hooks=hooks, limit_seconds=limit_seconds, now=now)


async def shard_label(options: PoolOptions) -> ShardLabel | None:
    """Return which shard a database is, after a look at it as `open_store` has."""
    return await check(options.direct_dsn or options.dsn, session=not options.pooled)


def server_clock() -> datetime | None:
    """Leave the time to the server."""
    return None
