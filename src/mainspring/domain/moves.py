"""Which partitions are to move from where to where."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.partitions import spans
from mainspring.domain.shards import ShardMap


class Move(msgspec.Struct, frozen=True):
    """Partitions of one shard that move to another."""

    partitions: tuple[int, ...]
    source: int
    target: int


class StoredMove(msgspec.Struct, frozen=True):
    """A move that was begun, as its source and its target know it."""

    id: UUID
    move: Move

    def is_decided(self, shard_map: ShardMap) -> bool:
        """Return whether the partitions are the target's by its own map."""
        return all(shard_map.owners[one] == self.move.target for one in self.move.partitions)


class MoveState(msgspec.Struct, frozen=True):
    """How far a move is that has not ended, and whether anybody is at it."""

    move: Move
    is_decided: bool
    is_attended: bool
    """A process holds the lock under which partitions are moved."""

    refused_seconds: float | None
    """For how long the source has refused the partitions; None: it does not, or they are elsewhere
    already."""

    def __str__(self) -> str:
        """Say it in a sentence, with what is to be done."""
        move = self.move
        what = (
            f"the partitions {spans(move.partitions)} move from shard {move.source + 1} to shard "
            f"{move.target + 1}"
        )
        if self.refused_seconds is not None:
            what += f", and have been refused for {self.refused_seconds:.1f} s"
        if self.is_attended:
            return what
        if self.is_decided:
            return (
                f"{what}: that is decided, and nobody is at it; a scheduler finishes it, and so "
                "does `mainspring shards move --resume`"
            )
        lets_go = "a scheduler lets go of them; " if self.refused_seconds is not None else ""
        return (
            f"{what}, and nobody is at it; {lets_go}run `mainspring shards move --resume` to go "
            "on, or `mainspring shards move --cancel` to take it back"
        )


def read_partitions(words: Sequence[str]) -> tuple[int, ...]:
    """Return the partitions that people name: numbers and ranges such as `3`, `8-15` or `1,4-6`.

    Raises `InvalidValue`.
    """
    found: set[int] = set()
    for word in (part.strip() for words_ in words for part in words_.split(",")):
        low, dash, high = word.partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)):
            raise _wrong(word)
        first, last = int(low), int(high or low)
        if not first <= last < PARTITIONS:
            raise _wrong(word)
        found |= {*range(first, last + 1)}
    return tuple(sorted(found))


def planned(shard_map: ShardMap, partitions: Sequence[int], target: int) -> Move:
    """Return a move, or raise `InvalidValue` for one that makes no sense."""
    if not 0 <= target < shard_map.count:
        raise InvalidValue(
            f"--to is {target + 1}, and there are {shard_map.count} shards; name one of them",
            field="to",
        )
    sources = {shard_map.owners[one] for one in partitions}
    if target in sources:
        there = [one for one in partitions if shard_map.owners[one] == target]
        raise InvalidValue(
            f"shard {target + 1} keeps the partitions {spans(there)} already; leave them out",
            field="partitions",
        )
    if len(sources) != 1:
        raise InvalidValue(
            f"the partitions {spans(partitions)} are in {len(sources)} shards; move those of one "
            "shard at a time",
            field="partitions",
        )
    return Move(tuple(partitions), sources.pop(), target)


def balanced(shard_map: ShardMap) -> list[Move]:
    """Return the fewest moves after which no shard keeps two partitions more than another."""
    sizes = Counter(shard_map.owners)
    low, more = divmod(PARTITIONS, shard_map.count)
    # The largest ones keep the partitions that are left over, so that those need not move.
    order = sorted(range(shard_map.count), key=lambda shard: (-sizes[shard], shard))
    wanted = {shard: low + (place < more) for place, shard in enumerate(order)}
    spare = {shard: [*shard_map.partitions_of(shard)[wanted[shard] :]] for shard in wanted}
    moves = []
    for target in sorted(wanted):
        missing = wanted[target] - sizes[target]
        for source in sorted(spare):
            taken, spare[source] = (
                spare[source][: max(0, missing)],
                spare[source][max(0, missing) :],
            )
            if taken:
                moves.append(Move(tuple(taken), source, target))
                missing -= len(taken)
    return moves


def _wrong(word: str) -> InvalidValue:
    return InvalidValue(
        f"{word!r} names no partitions; give numbers from 0 to {PARTITIONS - 1} and ranges of "
        "them, such as 3 or 8-15",
        field="partitions",
    )
