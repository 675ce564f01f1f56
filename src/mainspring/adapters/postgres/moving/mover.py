"""Moving partitions, step by step; each step may be the last one that a process lives to do.

The source notes what changes while the long tables are copied. Then it refuses what is written to
the partitions, the rest is copied, and the commit in the target that has the last rows and the next
version of the map decides the move. Before it the move can be taken back, after it only finished.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from mainspring.adapters.postgres.moving.copying import (
    BATCH_ROWS,
    Copying,
    amount,
    delete_batch,
    deleted,
)
from mainspring.adapters.postgres.moving.end import End, TakenOver
from mainspring.adapters.postgres.moving.guarding import Guarding, kept_by_others, patiently
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.adapters.postgres.moving.tables import (
    Table,
    read_places,
    tables_in,
    write_places,
)
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.domain.errors import Conflict, MainspringError, StoreUnavailable
from mainspring.domain.moves import StoredMove
from mainspring.domain.shards import ShardMap
from mainspring.ports.clock import Clock
from mainspring.ports.hooks import HookPoint, Hooks

CATCH_UP_ROUNDS: Final = 20
CHANGES: Final = 5000
"""Notes that are worked off at a time."""

FEW_CHANGES: Final = 200
"""So many rows are copied so quickly that it is not worth another round without the guard."""

_CHANGE_MAP: Final = QUERIES["change_map"].sql
_SETTLE_MAP: Final = QUERIES["settle_map"].sql


class Tools(msgspec.Struct, frozen=True):
    """What a mover is given."""

    clock: Clock
    hooks: Hooks
    tell: Callable[[str], None]
    """Is told in a sentence how far it is."""

    freeze_seconds: float
    """Longest that the partitions are refused before it gives up."""


class Mover:
    """Moves what a stored move says, from wherever it stands."""

    def __init__(
        self,
        ends: Sequence[End],
        stored: StoredMove,
        shard_map: ShardMap,
        runner: UUID,
        tools: Tools,
    ) -> None:
        self._ends = tuple(ends)
        self._stored = stored
        self._runner = runner
        self._tools = tools
        self._map = shard_map
        """The one before the move, or the one after it once that is decided."""

        self._source = ends[stored.move.source]
        self._target = ends[stored.move.target]
        self._partitions = list(stored.move.partitions)
        self._copying = Copying(self._source, self._target, self._partitions)
        self._guarding = Guarding(self._source, self._partitions, tools.clock)
        self._tables: list[Table] = []
        self._places: dict[str, tuple[Any, ...]] = {}

    async def run(self) -> float:
        """Move, and return for how long the partitions were refused, in seconds.

        Raises `Conflict`, and `StoreUnavailable` when it has to be run again.
        """
        await self._begin()
        seconds = 0.0
        if not await self._is_decided():
            if await self._source.refusal() is not None:
                # Whoever was at it before is gone, and it takes a while until that is due again.
                await self._guarding.let_go()
            await self._copy()
            seconds = await self._switch()
        await self._finish()
        return seconds

    async def cancel(self) -> None:
        """Take the move back; raises `Conflict` once it is decided."""
        await self._begin()
        if await self._is_decided():
            raise Conflict(
                "this move is decided; run `mainspring shards move --resume` to finish it"
            )
        async with self._target.writing() as connection:
            await connection.execute(STATEMENTS["note_places"].sql, "{}")
        await self._guarding.let_go()
        await self._guarding.stop_noting()
        await self._delete_long(self._target)
        for end in (self._source, self._target):
            async with end.writing() as connection:
                await connection.execute(STATEMENTS["end_move"].sql, self._stored.id)

    async def relieve(self) -> bool:
        """Take over from a process that is at the move no more, so that nothing is refused: finish
        what is decided, let go of the partitions if it is not. Returns whether it was decided.

        Source and target have to be connected to. Raises `TakenOver` when it has ended.
        """
        await self._take(anew=False)
        if not await self._is_decided():
            await self._guarding.let_go()
            return False
        for end in self._ends:
            await end.reopen_if_closed()
        await self._read_tables()
        await self._finish()
        return True

    async def _begin(self) -> None:
        places = await self._take(anew=True)
        await self._read_tables()
        self._places = read_places(places, self._tables)

    async def _take(self, *, anew: bool) -> str:
        """Take the move over, in the target first: there it is decided."""
        places = await self._target.take(self._stored, self._runner, anew=anew)
        # Who comes later waits for both, so that it has the move in the source later, too.
        async with self._target.writing():
            await self._source.take(self._stored, self._runner, anew=anew)
        await self._reach(HookPoint.MOVE_AFTER_RECORD)
        return places

    async def _read_tables(self) -> None:
        self._tables, self._queues = await tables_in(
            self._source.connection, self._target.connection
        )

    async def _is_decided(self) -> bool:
        label = await self._target.label()
        if not self._stored.is_decided(label.map):
            return False
        self._map = label.map
        return True

    async def _copy(self) -> None:
        """Copy the long tables while they are written to, then what was written meanwhile."""
        await self._guarding.note()
        await self._make_months()
        if not self._places:
            await self._delete_long(self._target)
        for table in self._long():
            await self._copy_long(table)
        for _ in range(CATCH_UP_ROUNDS):
            async with self._target.writing():
                numbers = await self._copy_changes()
            await self._forget_changes(numbers)
            if len(numbers) < FEW_CHANGES:
                break
        await self._reach(HookPoint.MOVE_AFTER_COPY)

    async def _make_months(self) -> None:
        with self._source.translating(wrote=False):
            rows = await self._source.connection.fetch(STATEMENTS["months"].sql)
        clock = self._tools.clock
        for row in rows:
            await patiently(clock, lambda month=row["month"]: self._make_month(month))  # type: ignore[misc]

    async def _make_month(self, month: Any) -> None:
        with self._target.translating(wrote=True):
            await self._target.connection.execute(STATEMENTS["make_month"].sql, month)

    async def _copy_long(self, table: Table) -> None:
        copied, count = 0, BATCH_ROWS
        while count == BATCH_ROWS:
            async with self._target.writing() as connection:
                count, place = await self._copying.batch(
                    table, table.early, self._places.get(table.name)
                )
                if place is not None:
                    self._places[table.name] = place
                    await connection.execute(
                        STATEMENTS["note_places"].sql, write_places(self._places)
                    )
            copied += count
            await self._reach(HookPoint.MOVE_AFTER_BATCH)
        self._tools.tell(f"{copied} rows of {table.name} copied")

    async def _copy_changes(self, after: int = 0) -> list[int]:
        """Copy what was noted behind a number, and return the numbers of what was."""
        rows = await self._source.connection.fetch(STATEMENTS["read_changes"].sql, CHANGES, after)
        for table in self._long():
            keys = {_key_of(row) for row in rows if row["kind"] == table.name}
            if keys:
                await self._copying.noted(table, sorted(keys))
        return [row["number"] for row in rows]

    async def _forget_changes(self, numbers: list[int]) -> None:
        async with self._source.writing() as connection:
            await connection.execute(STATEMENTS["forget_changes"].sql, numbers)

    async def _switch(self) -> float:
        """Refuse writes, copy the rest and decide the move, or let writes go on again."""
        after = self._map.moved(self._partitions, self._target.shard)
        await self._guarding.refuse(after, self._tools.freeze_seconds)
        began = self._tools.clock.monotonic()
        try:
            await self._reach(HookPoint.MOVE_AFTER_FREEZE)
            async with asyncio.timeout(self._tools.freeze_seconds):
                await patiently(self._tools.clock, self._decide)
        except TakenOver:
            raise
        except (MainspringError, TimeoutError, asyncio.CancelledError) as error:
            is_decided = await self._was_decided_after_all()
            if not is_decided:
                await self._guarding.let_go()
            if isinstance(error, TimeoutError) and not is_decided:
                raise StoreUnavailable(
                    f"the last rows were not copied within {self._tools.freeze_seconds:g} s, so "
                    "the partitions stay where they are; move fewer at a time"
                ) from None
            if isinstance(error, asyncio.CancelledError) or not is_decided:
                raise
        self._map = after
        await self._reach(HookPoint.MOVE_AFTER_SWITCH)
        return self._tools.clock.monotonic() - began

    async def _decide(self) -> None:
        """Copy the last rows and change the map in one transaction of the target."""
        after = self._map.moved(self._partitions, self._target.shard)
        async with self._target.writing() as connection:
            # Who takes over from a process that stands still waits for this transaction.
            await connection.execute(
                STATEMENTS["bound_idling"].sql, round(max(1.0, self._tools.freeze_seconds) * 1000)
            )
            # They stay noted until the move is over, in case that this is to be done again.
            numbers = [0]
            while numbers:
                numbers = await self._copy_changes(numbers[-1])
            await self._copying.missing(self._queues)
            for table in self._tables:
                which = table.late if table.is_long else "true"
                if which is not None:
                    await self._copying.whole(table, which)
            await self._compare()
            await self._line_up(connection)
            await self._raise_epochs(connection)
            if await connection.fetchval(STATEMENTS["has_guard"].sql):
                # Late, because it holds up whoever writes to the target until the commit.
                await connection.execute(STATEMENTS["short_locks"].sql)
                others = kept_by_others(after, self._target.shard)
                await connection.execute(STATEMENTS["guard"].sql, others)
            await _write_map(connection, after)
            await self._reach(HookPoint.MOVE_BEFORE_SWITCH)

    async def _compare(self) -> None:
        for table in (one for one in self._tables if not one.is_long):
            ours, _ = await amount(self._source.connection, table, self._partitions)
            theirs, _ = await amount(self._target.connection, table, self._partitions)
            if ours != theirs:
                raise Conflict(
                    f"the source has {ours} rows of {table.name} and the target {theirs}; nothing "
                    "was moved"
                )

    async def _line_up(self, connection: asyncpg.Connection) -> None:
        """Let the gates of the target admit what waited at those of the source, under the buckets
        that its groups had there.
        """
        await connection.execute(STATEMENTS["line_up"].sql, self._partitions)
        rows = await self._source.connection.fetch(STATEMENTS["buckets"].sql, self._partitions)
        queues = [row["queue"] for row in rows]
        # Late, because it holds up whoever admits at these gates until the commit.
        await connection.execute(STATEMENTS["open_gates"].sql, self._partitions, queues)
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            await connection.execute(STATEMENTS["carry_buckets"].sql, *columns)

    async def _raise_epochs(self, connection: asyncpg.Connection) -> None:
        rows = await self._source.connection.fetch(STATEMENTS["epochs"].sql, self._partitions)
        partitions, epochs = zip(*rows, strict=True)
        await connection.execute(STATEMENTS["raise_epochs"].sql, [*partitions], [*epochs])

    async def _was_decided_after_all(self) -> bool:
        """Look whether a commit whose answer was lost took place. To hold the record of the move
        waits for a transaction that is still under way.
        """
        await self._target.open()
        async with self._target.writing():
            return self._stored.is_decided((await self._target.label()).map)

    async def _finish(self) -> None:
        """Do what is left of a decided move."""
        await self._release()
        await self._purge()
        await self._end()

    async def _release(self) -> None:
        """Let go of what workers and schedulers look at in the source, and tell every shard."""
        async with self._source.writing() as connection:
            await _write_map(connection, self._map)
            await connection.execute(STATEMENTS["mark_settled"].sql)
            await connection.execute(
                STATEMENTS["lend_places"].sql, self._partitions, self._target.shard
            )
            for table in self._tables:
                which = table.late if table.is_long else "true"
                if which is not None and table.name != "idempotency":
                    await deleted(connection, table, self._partitions, which)
        await self._reach(HookPoint.MOVE_AFTER_RELEASE)
        for end in self._ends:
            if end not in (self._source, self._target):
                with end.translating(wrote=True):
                    await _write_map(end.connection, self._map)
        await self._reach(HookPoint.MOVE_AFTER_MAPS)
        self._tools.tell(f"every shard has version {self._map.version} of the map")

    async def _purge(self) -> None:
        """Delete at the source what nobody looks at there any more."""
        await self._guarding.stop_noting()
        count = await self._delete_long(self._source)
        self._tools.tell(f"{count} rows deleted in the source")
        await self._reach(HookPoint.MOVE_AFTER_PURGE)

    async def _end(self) -> None:
        async with self._source.writing() as connection:
            await connection.execute(STATEMENTS["end_move"].sql, self._stored.id)
        for end in self._ends:
            with end.translating(wrote=True):
                await end.connection.execute(_SETTLE_MAP, self._map.version)
        async with self._target.writing() as connection:
            await connection.execute(STATEMENTS["end_move"].sql, self._stored.id)

    async def _delete_long(self, end: End) -> int:
        count = 0
        for table in self._long():
            after: tuple[Any, ...] | None = None
            while True:
                async with end.writing() as connection:
                    gone, after = await delete_batch(connection, table, self._partitions, after)
                count += gone
                if after is None:
                    break
        return count

    def _long(self) -> list[Table]:
        return [table for table in self._tables if table.is_long]

    async def _reach(self, point: HookPoint) -> None:
        await self._tools.hooks.reach(point)


def _key_of(row: asyncpg.Record) -> tuple[Any, ...]:
    if row["kind"] == "idempotency":
        return (row["key"],)
    return (row["id"], row["at"]) if row["kind"] == "ticks" else (row["id"],)


async def _write_map(connection: asyncpg.Connection, shard_map: ShardMap) -> None:
    await connection.execute(
        _CHANGE_MAP, shard_map.version, list(shard_map.owners), shard_map.count
    )
