"""Copying rows from one shard to another, each batch compared with what it was copied from."""

import io
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from mainspring.adapters.postgres.moving.end import End
from mainspring.adapters.postgres.moving.tables import Table
from mainspring.domain.errors import Conflict

BATCH_ROWS: Final = 1000


class Copying:
    """Copies rows of some partitions within transactions of the target that others began."""

    def __init__(self, source: End, target: End, partitions: Sequence[int]) -> None:
        self._source = source
        self._target = target
        self._partitions = list(partitions)

    async def batch(
        self, table: Table, which: str, after: Sequence[Any] | None
    ) -> tuple[int, tuple[Any, ...] | None]:
        """Copy the next rows behind a place; return how many they were and the new place."""
        rows = table.sql("rows", which, after=after)
        count = await self._copy(table, rows, (self._partitions, BATCH_ROWS, *(after or ())))
        if not count:
            return 0, None
        (last,) = await self._target.connection.fetch(table.sql("last_landed"))
        await self._target.connection.execute(table.sql("empty_landing"))
        return count, tuple(last)

    async def whole(self, table: Table, which: str = "true") -> int:
        """Copy all rows that pass a condition; return how many they were."""
        copied, after = 0, None
        while True:
            count, after = await self.batch(table, which, after)
            copied += count
            if count < BATCH_ROWS:
                return copied

    async def noted(self, table: Table, keys: Sequence[Sequence[Any]]) -> None:
        """Bring the rows of these keys to what they are now in the source, gone or not."""
        columns = [list(column) for column in zip(*keys, strict=True)]
        await self._target.connection.execute(table.sql("clear_noted", table.early), *columns)
        await self._copy(table, table.sql("noted_rows", table.early), columns)
        await self._target.connection.execute(table.sql("empty_landing"))

    async def missing(self, table: Table) -> None:
        """Copy the rows of a small table whose keys the target has not got."""
        target = self._target.connection
        await self._land(table, table.sql("all_rows"), ())
        await target.execute(table.sql("store_landed") + " ON CONFLICT DO NOTHING")
        await target.execute(table.sql("empty_landing"))

    async def _copy(self, table: Table, rows: str, arguments: Sequence[Any]) -> int:
        source, target = self._source.connection, self._target.connection
        # One snapshot, so that what is compared is what was copied.
        async with source.transaction(isolation="repeatable_read", readonly=True):
            await self._land(table, rows, arguments)
            (sent,) = await source.fetch(table.sql("digest", rows=rows), *arguments)
        if not sent["count"]:
            return 0
        await target.execute(table.sql("clear_landed"))
        await target.execute(table.sql("store_landed"))
        (stored,) = await target.fetch(table.sql("digest", rows=table.sql("landed")))
        if (stored["count"], stored["digest"]) != (sent["count"], sent["digest"]):
            raise Conflict(
                f"rows of {table.name} are not the same after they were copied; nothing was moved, "
                "and it is worth looking whether both servers have the same version and settings"
            )
        return int(sent["count"])

    async def _land(self, table: Table, rows: str, arguments: Sequence[Any]) -> None:
        target = self._target.connection
        await target.execute(table.sql("make_landing"))
        buffer = io.BytesIO()
        await self._source.connection.copy_from_query(
            rows, *arguments, output=buffer, format="binary"
        )
        buffer.seek(0)
        await target.copy_to_table(
            f"moving_{table.name}", source=buffer, columns=table.columns, format="binary"
        )


async def deleted(
    connection: asyncpg.Connection, table: Table, partitions: Sequence[int], which: str
) -> None:
    """Delete all rows of partitions that pass a condition."""
    after: tuple[Any, ...] | None = None
    while True:
        _, after = await delete_batch(connection, table, partitions, after, which)
        if after is None:
            return


async def delete_batch(
    connection: asyncpg.Connection,
    table: Table,
    partitions: Sequence[int],
    after: Sequence[Any] | None,
    which: str = "true",
) -> tuple[int, tuple[Any, ...] | None]:
    """Delete the next rows behind a place; return how many, and the new place if there are more."""
    statement = table.sql("delete_rows", which, after=after)
    row = await connection.fetchrow(statement, list(partitions), BATCH_ROWS, *(after or ()))
    if row is None:
        return 0, None
    count, *place = row
    return count, tuple(place) if count == BATCH_ROWS else None


async def amount(
    connection: asyncpg.Connection, table: Table, partitions: Sequence[int], which: str = "true"
) -> tuple[int, int]:
    """Return how many rows of partitions there are, and how many bytes."""
    (row,) = await connection.fetch(table.sql("amount", which), list(partitions))
    return int(row["count"]), int(row["bytes"])
