"""Taking over from a process that moved partitions and is gone, when nobody is at the keyboard.

Safety rests on the record of the move alone, which is taken in the target first: a process that was
only slow can decide nothing afterwards. The lock and the time only say when it is worth doing.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from mainspring.adapters.postgres.moving.end import End, TakenOver
from mainspring.adapters.postgres.moving.lending import take_places_back
from mainspring.adapters.postgres.moving.mover import Mover, Tools
from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.moves import StoredMove
from mainspring.domain.shards import ShardLabel
from mainspring.ports.clock import IdSource
from mainspring.ports.moves import Relieved

LOOK_SECONDS: Final = 10.0
"""How often it is looked whether a decided move, which refuses nothing, was left unfinished."""

TAKE_SECONDS: Final = 2.0
"""How often it is looked whether tasks have ended that took places of their queues along."""


class Relief:
    """`ports.moves.Moves`. ``labels`` is what the shards said last of themselves, so that
    nothing is asked while nothing moves.
    """

    def __init__(
        self,
        dsns: Sequence[str],
        ids: IdSource,
        tools: Tools,
        labels: Callable[[], Collection[ShardLabel]],
    ) -> None:
        self._dsns = tuple(dsns)
        self._ids = ids
        self._tools = tools
        self._labels = labels
        self._looked_at = float("-inf")
        self._took_at = float("-inf")

    async def relieve(self) -> Relieved | None:
        """End what a process left that is gone, or stands still for longer than it said.

        Raises `StoreUnavailable` while source or target does not answer: then nobody can know.
        """
        labels = [one for one in self._labels() if one.moving or not one.is_settled]
        now = self._tools.clock.monotonic()
        is_urgent = any(label.moving for label in labels)
        if not labels or not (is_urgent or now - self._looked_at >= LOOK_SECONDS):
            return None
        self._looked_at = now
        ends = [End(shard, dsn) for shard, dsn in enumerate(self._dsns)]
        try:
            for label in labels:
                await ends[label.shard].open()
                stored = await ends[label.shard].stored()
                if stored is not None and max(stored.move.source, stored.move.target) < len(ends):
                    return await self._look_after(ends, stored)
        except TakenOver:
            # Somebody else was quicker.
            return None
        finally:
            for end in ends:
                await end.close()
        return None

    async def take_places_back(self) -> int:
        """Take back places of queues that tasks took along which have ended."""
        now = self._tools.clock.monotonic()
        lenders = [label.shard for label in self._labels() if label.lends]
        if not lenders or now - self._took_at < TAKE_SECONDS:
            return 0
        self._took_at = now
        return sum([await take_places_back(self._dsns, lender) for lender in lenders])

    async def _look_after(self, ends: Sequence[End], stored: StoredMove) -> Relieved | None:
        source, target = ends[stored.move.source], ends[stored.move.target]
        for end in (source, target):
            await end.reopen_if_closed()
        is_abandoned = await _is_abandoned(ends[0])
        refusal = await source.refusal()
        target_map = (await target.label()).map
        if stored.is_decided(target_map):
            # Then nothing is refused by those who read it, and who finishes it may take its time.
            is_due = is_abandoned
        else:
            is_due = refusal is not None and (is_abandoned or refusal[1])
        if not is_due:
            return None
        mover = Mover(ends, stored, target_map, self._ids.task_id(), self._tools)
        was_decided = await mover.relieve()
        return Relieved(stored.move, was_decided, refusal and refusal[0])


async def _is_abandoned(first: End) -> bool:
    """Return whether nobody moves partitions. Then nobody begins to before the connection ends."""
    try:
        await first.reopen_if_closed()
        with first.translating(wrote=False):
            return bool(await first.connection.fetchval(STATEMENTS["take_lock"].sql))
    except StoreUnavailable:
        return False
