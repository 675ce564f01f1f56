"""Reads that may be a little old, from a read replica while it is no older than that.

How old the replica is follows from its log alone: what the primary had written when it was asked
is in the replica once that has replayed as far. So no two clocks are compared, and a replica that
stands still, or was cut off, is found out however it describes itself.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

from mainspring.adapters.postgres.pool import Pool, PoolOptions, Record
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.domain.errors import MainspringError

_LOGGER: Final = logging.getLogger("mainspring.replica")
_WRITTEN: Final = QUERIES["written_upto"]
_REPLAYED: Final = QUERIES["replayed_upto"]

LOOK_SECONDS: Final = 0.2
"""A look at how far both are serves the reads of so long."""

LOOK_SECONDS_MAX: Final = 0.5
READ_SECONDS: Final = 1.5
"""A replica that takes longer is given up, and the primary asked: so much is its outage felt."""

PAUSE_SECONDS: Final = 1.0
_LOOKS: Final = 64


class Replica:
    """A read replica behind a primary. Belongs to one event loop."""

    def __init__(self, options: PoolOptions, primary: Pool) -> None:
        self._primary = primary
        self._usual_seconds = options.read_staleness_seconds
        self._pool = Pool(_options_of(options), options.size) if options.read_dsn else None
        self._written: deque[tuple[float, int]] = deque(maxlen=_LOOKS)
        """When the primary was asked, and how far it had written then."""

        self._as_of = float("-inf")
        """What was written until then is in the replica."""

        self._looked_at = float("-inf")
        self._paused_until = float("-inf")
        self._told = ""
        self._lock = asyncio.Lock()

    async def fetch(
        self, query: Query, *arguments: Any, staleness_seconds: float | None = None
    ) -> list[Record]:
        """Run a statement that reads, on the replica if what it has is no older than that (default:
        what the settings say), else on the primary.
        """
        rows = await self.fetch_old(query, *arguments, staleness_seconds=staleness_seconds)
        return await self._primary.fetch(query, *arguments) if rows is None else rows

    async def fetch_old(
        self, query: Query, *arguments: Any, staleness_seconds: float | None = None
    ) -> list[Record] | None:
        """Return what the replica answers; None when there is none, it is too old, or fails."""
        bound = self._usual_seconds if staleness_seconds is None else staleness_seconds
        if self._pool is None or bound <= 0 or not await self._is_fresh(self._pool, bound):
            return None
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._pool.fetch(query, *arguments)
        except (MainspringError, TimeoutError) as error:
            self._pause(f"{error}" or "it did not answer in time")
            return None

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        if self._pool is not None:
            await self._pool.close()

    async def _is_fresh(self, pool: Pool, bound: float) -> bool:
        loop = asyncio.get_running_loop()
        if loop.time() - self._looked_at > min(LOOK_SECONDS, bound / 2):
            async with self._lock:
                now = loop.time()
                if now - self._looked_at > min(LOOK_SECONDS, bound / 2) and (
                    now >= self._paused_until
                ):
                    await self._look(pool, now)
        return loop.time() >= self._paused_until and loop.time() - self._as_of <= bound

    async def _look(self, pool: Pool, now: float) -> None:
        """Ask both how far they are."""
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                (written,) = await self._primary.fetch(_WRITTEN)
                (replayed,) = await pool.fetch(_REPLAYED)
        except (MainspringError, TimeoutError) as error:
            self._pause(f"{error}" or "it did not say in time how far it is")
            return
        if replayed["system"] != written["system"] or not replayed["is_replica"]:
            self._pause("it is no replica of this primary, or was promoted")
            return
        self._looked_at = now
        self._told = ""
        self._written.append((now, written["place"]))
        while self._written and self._written[0][1] <= replayed["place"]:
            self._as_of, _ = self._written.popleft()

    def _pause(self, reason: str) -> None:
        self._paused_until = asyncio.get_running_loop().time() + PAUSE_SECONDS
        if reason != self._told:
            self._told = reason
            _LOGGER.warning("the read replica is not used, the primary is: %s", reason)


def _options_of(options: PoolOptions) -> PoolOptions:
    return PoolOptions(
        dsn=options.read_dsn or "",
        pooled=options.pooled,
        size=options.size,
        lease_size=options.lease_size,
    )
