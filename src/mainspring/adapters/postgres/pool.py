"""Connections to PostgreSQL, with bounds on everything that can take time.

Nothing here relies on the state of a session, so a pooler in transaction mode may stand between.
Whoever asks gets an answer within `DEADLINE_SECONDS`: waiting for a connection, the statement and
its repetition after a deadlock all count. A connection that did not answer is thrown away.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import asyncpg
import msgspec

from mainspring.adapters.postgres.connections import KeptConnections
from mainspring.adapters.postgres.failures import (
    DRIVER_ERRORS,
    RETRIED_CODES,
    server_of,
    sqlstates,
    translated,
)
from mainspring.adapters.postgres.queries import Query

CONNECT_SECONDS: Final = 3.0
STATEMENT_SECONDS: Final = 4.0
_ON_THE_WAY_SECONDS: Final = 0.5
DEADLINE_SECONDS: Final = STATEMENT_SECONDS + _ON_THE_WAY_SECONDS
CLOSE_SECONDS: Final = 0.3
_REPEATS: Final = 5

SESSION: Final = {
    "application_name": "mainspring",
    "timezone": "UTC",
    "default_transaction_isolation": "read committed",
    "statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}",
    # Whoever stands still for longer than anybody here waits has lost its locks.
    "idle_in_transaction_session_timeout": "4000",
    # A statement that was planned while a table was empty is not planned again when it fills, so
    # plans that would read a whole table are never an option.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}

Record = asyncpg.Record
_Step = Callable[[], Awaitable[None]] | None


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect.

    ``pooled`` says that PgBouncer or the like stands between in transaction mode: then nothing is
    prepared, no session settings are sent, and every statement has a transaction of its own.
    ``size`` is the greatest number of connections for all but leases, which have ``lease_size``.
    """

    dsn: str
    direct_dsn: str | None = None
    pooled: bool = False
    size: int = 8
    lease_size: int = 2
    read_dsn: str | None = None
    """A read replica of the same database."""

    read_staleness_seconds: float = 5.0
    """How old what lists and counts say may be."""

    @property
    def listen_dsn(self) -> str | None:
        """Where LISTEN works, if anywhere."""
        return self.direct_dsn or (None if self.pooled else self.dsn)


class _Alone(asyncpg.Connection):
    """A connection outside of any pool. A server that does not answer keeps nobody from closing."""

    async def close(self, *, timeout: float | None = CLOSE_SECONDS) -> None:
        """Say goodbye, or hang up when nobody answers."""
        with suppress(*DRIVER_ERRORS):
            async with asyncio.timeout(timeout):
                await super().close()


async def connect(dsn: str, *, session: bool = True, **settings: str) -> asyncpg.Connection:
    """Open one connection outside of any pool, or raise the domain's error for why not.

    Statements on it raise `TimeoutError` a little after the time that the server gives them, which
    is that of a pool unless `settings` name another: one that does not answer holds nobody up.
    """
    chosen = {**(SESSION if session else {}), **settings}
    given_seconds = int(chosen.get("statement_timeout", SESSION["statement_timeout"])) / 1000
    try:
        return await asyncpg.connect(
            dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=given_seconds + _ON_THE_WAY_SECONDS if given_seconds else None,
            connection_class=_Alone,
            statement_cache_size=0,
            server_settings=chosen or None,
        )
    except DRIVER_ERRORS as error:
        raise translated(error, wrote=False, server=server_of(dsn)) from error


class Pool:
    """A pool that is filled on demand. Opening it connects to nothing."""

    def __init__(self, options: PoolOptions, size: int) -> None:
        self._options = options
        self._kept = KeptConnections(self._open, size)

    async def fetch(
        self,
        query: Query,
        *arguments: Any,
        before_commit: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Record]:
        """Run one statement in a transaction of its own and return its rows.

        `before_commit` is awaited between the statement and its commit. Deadlocks and
        serialisation failures are repeated a few times; they reach nobody unless the server never
        settles. Raises the errors of `domain.errors`.
        """
        sent = _Sent()
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        try:
            if before_commit is None and not self._options.pooled:
                connection = self._kept.take_free()
                if connection is not None:
                    rows = await self._fetch_at_once(connection, query, arguments, sent)
                    if rows is not None:
                        return rows
            async with asyncio.timeout_at(deadline):
                return await self._settled(query, arguments, sent, before_commit)
        except DRIVER_ERRORS as error:
            if sent.sent and isinstance(error, TimeoutError):
                # The server bounds a statement by less, so it is not the statement. Whatever holds
                # up this answer, a server that is gone for instance, holds up the others as well.
                self._kept.drop_free()
            wrote = sent.sent and query.writes
            server = server_of(self._options.dsn)
            raise translated(error, wrote=wrote, server=server) from error

    async def close(self) -> None:
        """Close all connections; those that do not answer are cut. Safe to call twice."""
        with suppress(*DRIVER_ERRORS):
            await self._kept.close(CONNECT_SECONDS)

    async def _fetch_at_once(
        self,
        connection: asyncpg.Connection,
        query: Query,
        arguments: tuple[Any, ...],
        sent: "_Sent",
    ) -> list[Record] | None:
        """Run a statement on a connection that was free, with the driver's own bound in time,
        which costs a third of ours; None if it has to be repeated.
        """
        sent.sent = True
        try:
            return await connection.fetch(query.sql, *arguments, timeout=DEADLINE_SECONDS)
        except asyncpg.PostgresError as error:
            if RETRIED_CODES.isdisjoint(sqlstates(error)):
                raise
            return None
        except BaseException:
            connection.terminate()
            raise
        finally:
            self._kept.give_back(connection)

    async def _settled(
        self, query: Query, arguments: tuple[Any, ...], sent: "_Sent", before_commit: "_Step"
    ) -> list[Record]:
        for repeat in range(1, _REPEATS + 1):
            try:
                return await self._fetch(query, arguments, sent, before_commit)
            except asyncpg.PostgresError as error:
                if repeat == _REPEATS or RETRIED_CODES.isdisjoint(sqlstates(error)):
                    raise
                # At once: the server has already let the other side of a deadlock go on.
        raise AssertionError

    async def _fetch(
        self, query: Query, arguments: tuple[Any, ...], sent: "_Sent", before_commit: "_Step"
    ) -> list[Record]:
        kept = self._kept
        connection = kept.take_free() or await kept.take(CONNECT_SECONDS)
        sent.sent = True
        try:
            if self._options.pooled or before_commit is not None:
                # Without a transaction the pooler could hand the parts of one statement to
                # different servers.
                async with connection.transaction():
                    rows = await connection.fetch(query.sql, *arguments)
                    if before_commit is not None:
                        await before_commit()
                    return rows
            return await connection.fetch(query.sql, *arguments)
        except asyncpg.PostgresError:
            raise
        except BaseException:
            # Interrupted, or broken: nobody knows in which state. Asking the server would take
            # as long again as it took not to answer.
            connection.terminate()
            raise
        finally:
            kept.give_back(connection)

    async def _open(self) -> asyncpg.Connection:
        return await asyncpg.connect(
            self._options.dsn,
            timeout=CONNECT_SECONDS,
            statement_cache_size=0 if self._options.pooled else 200,
            max_cached_statement_lifetime=0,
            server_settings=None if self._options.pooled else SESSION,
        )


class _Sent:
    """Whether a statement may have reached the server."""

    sent = False
