"""The tables whose rows belong to partitions, as the catalog of a shard has them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.domain.errors import MigrationDrift

_WORKED_ON: Final = STATEMENTS["worked_on"].sql
_OF_LIVE_TASKS: Final = STATEMENTS["of_live_tasks"].sql
_SHARES: Final = frozenset({"concurrency", "rate", "burst"})


class Table(msgspec.Struct, frozen=True):
    """One table of tasks or of what belongs to them."""

    name: str
    id: str
    """The column that says to which partition a row belongs."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    types: dict[str, str]
    is_long: bool
    """It may be so long that it is copied while it is written to."""

    @property
    def early(self) -> str:
        """The condition for rows that may be in two shards at a time."""
        return f"NOT ({_WORKED_ON})" if self.name == "ticks" else "true"

    @property
    def late(self) -> str | None:
        """The condition for rows of a long table that are copied at the end; None: there are none.
        Keys may be forgotten where their tasks are not, so those of live tasks come again.
        """
        return {"ticks": _WORKED_ON, "idempotency": _OF_LIVE_TASKS}.get(self.name)

    def sql(
        self, name: str, which: str = "true", *, after: Sequence[Any] | None = None, rows: str = ""
    ) -> str:
        """Fill in a statement."""
        first = 3
        places = ", ".join(
            f"${first + n}::{self.types[column]}" for n, column in enumerate(self.key)
        )
        words = {
            "table": self.name,
            "id": self.id,
            "columns": ", ".join(f"t.{column}" for column in self.columns)
            if name in {"rows", "noted_rows", "all_rows", "landed"}
            else ", ".join(self.columns),
            "key": ", ".join(self.key)
            if name in {"digest", "landed"}
            else ", ".join(f"t.{column}" for column in self.key),
            "down": ", ".join(f"t.{column} DESC" for column in self.key),
            "same": " AND ".join(f"t.{column} = n.{column}" for column in self.key),
            "arrays": ", ".join(
                f"${n}::{self.types[column]}[]" for n, column in enumerate(self.key, 1)
            ),
            "after": "true"
            if after is None
            else f"({', '.join(f't.{column}' for column in self.key)}) > ({places})",
            "which": which,
            "rows": rows,
        }
        text = STATEMENTS[name].sql
        for word, meaning in words.items():
            text = text.replace(f"[[{word}]]", meaning)
        return text


async def tables_in(
    source: asyncpg.Connection, target: asyncpg.Connection
) -> tuple[list[Table], Table]:
    """Return the tables that belong to partitions, and that of the queues.

    Raises `MigrationDrift` when they are not the same in both shards.
    """
    found, others = await _tables(source), await _tables(target)
    if found != others:
        raise MigrationDrift(
            "the shards have different tables; run `mainspring migrate` with all of them first"
        )
    columns = await source.fetch(STATEMENTS["columns"].sql, "queues")
    # The share of one shard is not that of another.
    names = tuple(row["name"] for row in columns if row["name"] not in _SHARES)
    types = {row["name"]: row["type"] for row in columns}
    return found, Table("queues", "name", ("name",), names, types, is_long=False)


async def _tables(connection: asyncpg.Connection) -> list[Table]:
    found = []
    for row in await connection.fetch(STATEMENTS["tables"].sql):
        columns = await connection.fetch(STATEMENTS["columns"].sql, row["name"])
        types = {column["name"]: column["type"] for column in columns}
        names = tuple(sorted(types))
        key = tuple(row["key"])
        found.append(
            Table(row["name"], row["id"], key, names, types, is_long=row["kept"] == "long")
        )
    return found


def write_places(places: Mapping[str, Sequence[Any]]) -> str:
    """Write down how far tables are copied."""
    return json.dumps({name: [str(value) for value in place] for name, place in places.items()})


def read_places(text: str, tables: Sequence[Table]) -> dict[str, tuple[Any, ...]]:
    """Read what `write_places` wrote."""
    written = json.loads(text)
    return {
        table.name: tuple(
            _read(table.types[column], value)
            for column, value in zip(table.key, written[table.name], strict=True)
        )
        for table in tables
        if table.name in written
    }


def _read(kind: str, text: str) -> Any:
    if kind == "uuid":
        return UUID(text)
    return datetime.fromisoformat(text) if kind.startswith("timestamp") else text
