"""What the source of a move is told to do with what is written to the partitions: to note it, to
refuse it, to let it be. Each waits for those who are writing.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mainspring.adapters.postgres.failures import RETRIED_CODES, sqlstates
from mainspring.adapters.postgres.moving.end import End
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.domain.errors import MainspringError
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.shards import ShardMap
from mainspring.ports.clock import Clock

LOCK_SECONDS: Final = 60.0
"""So long the tables are tried for before the move gives up."""

_LOCK_PAUSE_SECONDS: Final = 0.2
_LOCKED: Final = RETRIED_CODES | {"55P03"}


class Guarding:
    """The triggers of the source, for some partitions of it."""

    def __init__(self, source: End, partitions: Sequence[int], clock: Clock) -> None:
        self._source = source
        self._partitions = list(partitions)
        self._clock = clock

    async def note(self) -> None:
        """Let the source note what changes in the long tables."""

        async def note() -> None:
            async with self._source.writing() as connection:
                await connection.execute(STATEMENTS["short_locks"].sql)
                await connection.execute(STATEMENTS["note_changes"].sql, self._partitions)

        await patiently(self._clock, note)

    async def stop_noting(self) -> None:
        """End that, and forget what was noted."""

        async def stop() -> None:
            async with self._source.writing() as connection:
                await connection.execute(STATEMENTS["short_locks"].sql)
                await connection.execute(STATEMENTS["note_changes"].sql, [])
                await connection.execute(STATEMENTS["forget_all_changes"].sql)

        await patiently(self._clock, stop)

    async def refuse(self, after: ShardMap, seconds: float) -> None:
        """Refuse, from now on, whatever is not the source's own after the move; whoever comes by
        may think that it takes so long at most.
        """

        async def guard() -> None:
            async with self._source.writing() as connection:
                await connection.execute(STATEMENTS["short_locks"].sql)
                others = kept_by_others(after, self._source.shard)
                await connection.execute(STATEMENTS["guard"].sql, others)
                await connection.execute(
                    STATEMENTS["mark_moving"].sql, self._partitions, float(seconds)
                )
                # Who plans for them has an old epoch from now on, and leaves them alone.
                await connection.execute(STATEMENTS["drop_owners"].sql, self._partitions)

        await patiently(self._clock, guard)

    async def let_go(self) -> None:
        """Let writes to the partitions go on."""
        others = kept_by_others((await self._source.label()).map, self._source.shard)

        async def unguard() -> None:
            async with self._source.writing() as connection:
                await connection.execute(STATEMENTS["short_locks"].sql)
                await connection.execute(STATEMENTS["guard"].sql, others)
                await connection.execute(STATEMENTS["mark_settled"].sql)

        await patiently(self._clock, unguard)


async def patiently(clock: Clock, step: Callable[[], Awaitable[None]]) -> None:
    """Do a step again for as long as somebody holds a lock that it needs."""
    until = clock.monotonic() + LOCK_SECONDS
    while True:
        try:
            return await step()
        except MainspringError as error:
            is_locked = not _LOCKED.isdisjoint(sqlstates(error))
            if not is_locked or clock.monotonic() >= until:
                raise
        await clock.sleep(_LOCK_PAUSE_SECONDS)


def kept_by_others(shard_map: ShardMap, shard: int) -> list[int]:
    """Return the partitions that a shard does not keep."""
    return [one for one in range(PARTITIONS) if shard_map.owners[one] != shard]
