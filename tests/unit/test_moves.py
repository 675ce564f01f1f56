"""Which partitions move, and under which map."""

from uuid import UUID

import pytest

from mainspring.domain.errors import InvalidConfiguration, InvalidValue
from mainspring.domain.ids import PARTITIONS
from mainspring.domain.moves import Move, balanced, planned, read_partitions
from mainspring.domain.shards import (
    ShardLabel,
    ShardMap,
    check_label,
    check_same,
    even_map,
    leaving,
    newest_map,
)

HERE = UUID(int=1)
TWO = even_map(2)


def test_partitions_are_named_by_numbers_and_ranges() -> None:
    assert read_partitions(["3"]) == (3,)
    assert read_partitions(["8-10,1", "0", "9"]) == (0, 1, 8, 9, 10)
    for word in ("", "x", "64", "5-", "-5", "9-8", "1-64", "1.5"):
        with pytest.raises(InvalidValue, match="names no partitions"):
            read_partitions([word])


def test_a_move_is_from_one_shard_to_another() -> None:
    assert planned(TWO, (1, 2), 1) == Move((1, 2), 0, 1)
    for partitions, target, message in (
        ((1, 40), 1, r"shard 2 keeps the partitions 40 already"),
        ((1,), 2, "--to is 3, and there are 2 shards"),
        ((1,), -1, "--to is 0"),
    ):
        with pytest.raises(InvalidValue, match=message):
            planned(TWO, partitions, target)
    with pytest.raises(InvalidValue, match="are in 2 shards"):
        planned(TWO.widened(3), (1, 40), 2)


@pytest.mark.parametrize("count", [2, 3, 5, 64])
def test_balancing_moves_no_more_than_it_has_to(count: int) -> None:
    shard_map = ShardMap((0,) * PARTITIONS, shards=1).widened(count)
    moves = balanced(shard_map)
    assert sum(len(move.partitions) for move in moves) == PARTITIONS - -(-PARTITIONS // count)
    for move in moves:
        assert planned(shard_map, move.partitions, move.target) == move
        shard_map = shard_map.moved(move.partitions, move.target)
    sizes = [len(shard_map.partitions_of(shard)) for shard in range(count)]
    assert max(sizes) - min(sizes) <= 1
    assert balanced(shard_map) == []


def test_maps_of_two_versions_fit_together_while_partitions_move() -> None:
    after = TWO.moved((1,), 1)
    assert (after.version, after.count, after.partitions_of(1)[0]) == (2, 2, 1)
    source = ShardLabel(HERE, 0, TWO, (1,))
    decided = ShardLabel(HERE, 1, after, is_settled=False)
    check_same([source, decided])
    assert newest_map([source, decided]) is after
    assert leaving([source], TWO) == {1}
    assert leaving([source], after) == frozenset()
    for other in (
        ShardLabel(HERE, 1, after),
        ShardLabel(HERE, 1, after.moved((2,), 1), is_settled=False),
        ShardLabel(HERE, 1, ShardMap(after.owners, 1), is_settled=False),
    ):
        with pytest.raises(InvalidConfiguration, match="different maps"):
            check_same([source, other])


def test_a_shard_may_keep_nothing() -> None:
    wide = TWO.widened(3)
    assert wide.count == 3
    check_label(ShardLabel(HERE, 2, wide), 2, 3)
    with pytest.raises(InvalidConfiguration, match="shards add"):
        check_label(ShardLabel(HERE, 0, TWO), 0, 3)
    emptied = TWO.moved(range(32, 64), 0)
    assert emptied.count == 2
