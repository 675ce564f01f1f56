"""One shard, as who moves partitions is connected to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import asyncpg

from mainspring.adapters.postgres.failures import DRIVER_ERRORS, server_of, translated
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.adapters.postgres.pool import connect
from mainspring.adapters.postgres.shards import label_in
from mainspring.domain.errors import Conflict, MainspringError, MigrationNeeded
from mainspring.domain.moves import Move, StoredMove
from mainspring.domain.shards import ShardLabel

_SESSION: Final[dict[str, Any]] = {
    # A batch may be large, and what is still free of indexes is read as a whole.
    "statement_timeout": "120000",
    "idle_in_transaction_session_timeout": "20000",
    "enable_seqscan": "on",
    "enable_bitmapscan": "on",
    "datestyle": "ISO, MDY",
    "extra_float_digits": "1",
}


class TakenOver(Conflict):
    """Another process is at this move now, has let go of its partitions, or has ended it."""

    def __init__(self, message: str = "", *, field: str | None = None) -> None:
        super().__init__(
            message
            or "another process has taken this move over, or a scheduler has let go of the "
            "partitions; `mainspring shards list` says where it stands",
            field=field,
        )


class End:
    """A connection to one shard, in which nothing is changed but under the record of the move."""

    def __init__(self, shard: int, dsn: str) -> None:
        self.shard = shard
        self._dsn = dsn
        self._connection: asyncpg.Connection | None = None
        self._claim: tuple[UUID, UUID] | None = None

    @property
    def connection(self) -> asyncpg.Connection:
        """The open connection."""
        assert self._connection is not None
        return self._connection

    async def open(self) -> None:
        """Connect, again if it was connected."""
        await self.close()
        self._connection = await connect(self._dsn, session=True, **_SESSION)

    async def reopen_if_closed(self) -> None:
        """Connect unless it is connected."""
        if self._connection is None:
            await self.open()

    async def close(self) -> None:
        """Cut the connection. Safe to call twice."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def label(self) -> ShardLabel:
        """Return which shard it is, and under which map."""
        with self.translating(wrote=False):
            label = await label_in(self.connection)
        if label is None:
            raise MigrationNeeded(
                f"number {self.shard + 1} of the databases in database_url is no shard yet; run "
                "`mainspring migrate` or `mainspring shards add` with all of them"
            )
        return label

    async def stored(self) -> StoredMove | None:
        """Return the move that was begun here and has not ended."""
        with self.translating(wrote=False):
            row = await self.connection.fetchrow(STATEMENTS["read_move"].sql)
        if row is None:
            return None
        move = Move(tuple(row["partitions"]), row["source"], row["target"])
        return StoredMove(row["id"], move)

    async def refusal(self) -> tuple[float, bool] | None:
        """Return for how many seconds partitions have been refused here, and whether that is longer
        than who moves them would; None while nothing is refused.
        """
        with self.translating(wrote=False):
            row = await self.connection.fetchrow(STATEMENTS["read_refusal"].sql)
        return None if row is None else (row["seconds"], row["is_overdue"])

    async def take(self, stored: StoredMove, runner: UUID, *, anew: bool = True) -> str:
        """Take a move over, so that who was at it before changes nothing more here; ``anew``: or
        begin it. Returns how far it has come.

        Raises `TakenOver` for one that has ended, unless ``anew``.
        """
        move = stored.move
        begun = (move.source, move.target, list(move.partitions)) if anew else ()
        name = "begin_move" if anew else "take_move"
        with self.translating(wrote=True):
            places = await self.connection.fetchval(STATEMENTS[name].sql, stored.id, runner, *begun)
        if places is None and anew:
            raise Conflict(f"shard {self.shard + 1} takes part in another move already")
        if places is None:
            raise TakenOver
        self._claim = (stored.id, runner)
        return str(places)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[asyncpg.Connection]:
        """A transaction in which the guard lets this process pass; raises `TakenOver` when another
        process has taken the move over.
        """
        assert self._claim is not None
        with self.translating(wrote=True):
            async with self.connection.transaction():
                if (
                    await self.connection.fetchrow(STATEMENTS["hold_move"].sql, *self._claim)
                    is None
                ):
                    raise TakenOver
                yield self.connection

    def translating(self, *, wrote: bool) -> "_Translating":
        """Turn what the driver raises in a block into errors of the domain."""
        return _Translating(self._dsn, wrote=wrote)


class _Translating:
    def __init__(self, dsn: str, *, wrote: bool) -> None:
        self._dsn = dsn
        self._wrote = wrote

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MainspringError):
            return
        if isinstance(error, DRIVER_ERRORS):
            raise translated(error, wrote=self._wrote, server=server_of(self._dsn)) from error
