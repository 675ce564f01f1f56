"""What people do with the shards of an installation: move, take back, look, add."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from mainspring.adapters.postgres.moving.copying import amount
from mainspring.adapters.postgres.moving.end import End
from mainspring.adapters.postgres.moving.mover import Mover, Tools
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.adapters.postgres.moving.tables import tables_in
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.moves import Move, MoveState, StoredMove, planned
from mainspring.domain.partitions import spans
from mainspring.domain.shards import ShardLabel, ShardMap, check_label, check_same, newest_map
from mainspring.ports.clock import IdSource

LOCK_SECONDS: Final = 5.0
LOCK_PAUSE_SECONDS: Final = 0.1
ROWS_PER_SECOND: Final = 5000
BYTES_PER_SECOND: Final = 10 << 20
FREEZE_SECONDS_LEAST: Final = 0.2
"""From these follows how long writes are expected to be refused: a careful guess."""


class Amount(msgspec.Struct, frozen=True):
    """What of one table would be moved."""

    table: str
    rows: int
    bytes: int
    is_last: bool
    """It is copied while writes are refused."""


class Outlook(msgspec.Struct, frozen=True):
    """What a move would do."""

    move: Move
    amounts: list[Amount]

    @property
    def freeze_seconds(self) -> float:
        """How long writes to the partitions are expected to be refused."""
        last = [one for one in self.amounts if one.is_last]
        rows, size = sum(one.rows for one in last), sum(one.bytes for one in last)
        return FREEZE_SECONDS_LEAST + rows / ROWS_PER_SECOND + size / BYTES_PER_SECOND


class Removals:
    """Moves partitions between the databases of one installation."""

    def __init__(self, dsns: Sequence[str], ids: IdSource, tools: Tools) -> None:
        self._dsns = tuple(dsns)
        self._ids = ids
        self._tools = tools

    async def move(self, partitions: Sequence[int], target: int) -> float:
        """Move partitions to a shard, or go on with the move of just these. Returns for how long
        they were refused, in seconds.

        Raises `InvalidValue` for a move that makes no sense, `Conflict` while there is another.
        """
        async with self._ends() as (ends, shard_map):
            stored = await _stored(ends)
            if stored is None:
                move = planned(shard_map, partitions, target)
                stored = StoredMove(self._ids.task_id(), move)
            elif (stored.move.partitions, stored.move.target) != (tuple(partitions), target):
                raise Conflict(
                    f"a move is under way, of the partitions {spans(stored.move.partitions)} to "
                    f"shard {stored.move.target + 1}; finish it with `mainspring shards move "
                    "--resume` or take it back with `mainspring shards move --cancel`"
                )
            return await self._mover(ends, stored, shard_map).run()

    async def resume(self) -> float:
        """Go on with the move that is under way; raises `NotFound` if there is none."""
        async with self._ends() as (ends, shard_map):
            return await self._mover(ends, await _known(ends), shard_map).run()

    async def cancel(self) -> None:
        """Take back the move that is under way; raises `NotFound`, and `Conflict` once it is
        decided.
        """
        async with self._ends() as (ends, shard_map):
            await self._mover(ends, await _known(ends), shard_map).cancel()

    async def state(self) -> MoveState | None:
        """Return how far the move is that is under way or was left; None: there is none."""
        async with self._ends(alone=False) as (ends, shard_map):
            stored = await _stored(ends)
            if stored is None:
                return None
            is_decided = stored.is_decided(shard_map)
            refusal = None if is_decided else await ends[stored.move.source].refusal()
            with ends[0].translating(wrote=False):
                is_attended = await ends[0].connection.fetchval(STATEMENTS["is_attended"].sql)
            return MoveState(stored.move, is_decided, is_attended, refusal and refusal[0])

    async def outlook(self, partitions: Sequence[int], target: int) -> Outlook:
        """Return what a move would do, without doing any of it."""
        async with self._ends(alone=False) as (ends, shard_map):
            move = planned(shard_map, partitions, target)
            source = ends[move.source].connection
            tables, _ = await tables_in(source, ends[target].connection)
            amounts = []
            for table in tables:
                rows, size = await amount(source, table, move.partitions)
                amounts.append(Amount(table.name, rows, size, not table.is_long))
            return Outlook(move, amounts)

    def _mover(self, ends: Sequence[End], stored: StoredMove, shard_map: ShardMap) -> Mover:
        return Mover(ends, stored, shard_map, self._ids.task_id(), self._tools)

    @asynccontextmanager
    async def _ends(self, *, alone: bool = True) -> AsyncIterator[tuple[list[End], ShardMap]]:
        """Connect to every shard; ``alone``: and keep others from moving anything meanwhile."""
        ends = [End(shard, dsn) for shard, dsn in enumerate(self._dsns)]
        try:
            for end in ends:
                await end.open()
            if alone:
                await self._take_lock(ends[0])
            labels = [await end.label() for end in ends]
            _check(labels)
            yield ends, newest_map(labels)
        finally:
            for end in ends:
                await end.close()

    async def _take_lock(self, first: End) -> None:
        """Keep others out; the lock of one that was killed lasts until its server notices."""
        until = self._tools.clock.monotonic() + LOCK_SECONDS
        with first.translating(wrote=False):
            while not await first.connection.fetchval(STATEMENTS["take_lock"].sql):
                if self._tools.clock.monotonic() >= until:
                    raise Conflict("another process moves partitions of this installation just now")
                await self._tools.clock.sleep(LOCK_PAUSE_SECONDS)


def _check(labels: Sequence[ShardLabel]) -> None:
    for place, label in enumerate(labels):
        check_label(label, place, len(labels))
    check_same(labels)


async def _stored(ends: Sequence[End]) -> StoredMove | None:
    found = [stored for end in ends if (stored := await end.stored()) is not None]
    if len({stored.id for stored in found}) > 1:
        raise Conflict(
            "the databases know of different moves; one of them was probably restored from an old "
            "backup"
        )
    return found[0] if found else None


async def _known(ends: Sequence[End]) -> StoredMove:
    stored = await _stored(ends)
    if stored is None:
        raise NotFound("no move is under way")
    return stored
