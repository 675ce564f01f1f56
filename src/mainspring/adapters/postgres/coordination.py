"""Coordination of schedulers in the task store's own database.

Nothing here needs a session of the server, so a pooler in transaction mode may stand between. One
connection of its own: whoever uses up the others cannot depose a scheduler.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final

from mainspring.adapters.postgres.pool import Pool, PoolOptions
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.ports.clock import Clock
from mainspring.ports.coordination import View

_JOIN: Final = QUERIES["join_members"]
_RENEW: Final = QUERIES["renew_member"]
_VIEW: Final = QUERIES["members_and_keys"]
_ACQUIRE: Final = QUERIES["acquire_keys"]
_RELEASE: Final = QUERIES["release_keys"]
_LEAVE: Final = QUERIES["leave_members"]
_FORGET: Final = QUERIES["forget_members"]

_LOOK_SECONDS: Final = 0.5
_LOOKS: Final = 8.0
"""In the time that a session lasts, at least so often."""


class PostgresSession:
    """`ports.coordination.Session`."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        now: Callable[[], datetime | None],
        member: str,
        ttl_seconds: float,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._now = now
        self._member = member
        self._ttl_seconds = ttl_seconds

    @property
    def ttl_seconds(self) -> float:
        """How long the session lasts after a renewal."""
        return self._ttl_seconds

    async def renew(self) -> bool:
        """Let the session last from now on; False when it is over."""
        return bool(await self._pool.fetch(_RENEW, self._now(), self._member, self._ttl_seconds))

    async def view(self) -> View:
        """Return the members and holders."""
        rows = await self._pool.fetch(_VIEW, self._now())
        return View(
            frozenset(row["member"] for row in rows if row["partition"] is None),
            {row["partition"]: row["member"] for row in rows if row["partition"] is not None},
        )

    async def changed(self, timeout_seconds: float) -> None:
        """Return when it is time to look again: looking costs less than being told."""
        look = min(_LOOK_SECONDS, self._ttl_seconds / _LOOKS)
        await self._clock.sleep(min(look, timeout_seconds))

    async def acquire(self, partitions: Collection[int]) -> frozenset[int]:
        """Take the keys that are free."""
        rows = await self._pool.fetch(_ACQUIRE, self._now(), self._member, list(partitions))
        return frozenset(row["partition"] for row in rows)

    async def release(self, partitions: Collection[int]) -> None:
        """Give keys back."""
        await self._pool.fetch(_RELEASE, self._member, list(partitions))

    async def leave(self) -> None:
        """End the session."""
        await self._pool.fetch(_LEAVE, self._member)


class PostgresCoordination:
    """`ports.coordination.Coordination`. Sessions end by the server's clock; `now` replaces it in
    tests.
    """

    def __init__(
        self,
        options: PoolOptions,
        clock: Clock,
        *,
        now: Callable[[], datetime | None] | None = None,
    ) -> None:
        self._pool = Pool(options, 1)
        self._clock = clock
        self._now = _server_clock if now is None else now

    async def join(self, member: str, ttl_seconds: float) -> PostgresSession:
        """Begin a session."""
        await self._pool.fetch(_JOIN, self._now(), member, ttl_seconds)
        return PostgresSession(self._pool, self._clock, self._now, member, ttl_seconds)

    async def forget_members(self) -> None:
        """End every session at once. Those who are alive notice it and join again."""
        await self._pool.fetch(_FORGET)

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._pool.close()


def _server_clock() -> datetime | None:
    return None
