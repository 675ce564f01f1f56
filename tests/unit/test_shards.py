"""Which shard keeps what, and who may use which list of databases."""

import dataclasses
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from mainspring.adapters.system import SystemIds
from mainspring.config import Settings, load, shard_settings, split_urls
from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.ids import PARTITIONS, beside, moved_into, partition_of
from mainspring.domain.shards import (
    ShardLabel,
    ShardMap,
    check_alone,
    check_label,
    check_same,
    even_map,
)

HERE, THERE = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64])
def test_a_new_map_has_ranges_of_equal_length(count: int) -> None:
    made = even_map(count)
    assert made.count == count
    assert list(made.owners) == sorted(made.owners)
    sizes = Counter(made.owners).values()
    assert max(sizes) - min(sizes) <= 1
    assert sorted(one for n in range(count) for one in made.partitions_of(n)) == [
        *range(PARTITIONS)
    ]


@pytest.mark.parametrize("count", [0, 65])
def test_a_map_has_no_shard_without_a_partition(count: int) -> None:
    with pytest.raises(InvalidConfiguration, match="the most is 64"):
        even_map(count)


def test_an_id_is_in_the_shard_of_its_partition() -> None:
    made, ids = even_map(3), SystemIds()
    for _ in range(200):
        one = ids.task_id()
        assert partition_of(one) in made.partitions_of(made.shard_of(one))


def test_ids_are_moved_into_partitions_evenly_and_keep_their_time() -> None:
    ids = SystemIds()
    counts: Counter[int] = Counter()
    for _ in range(2000):
        one = ids.task_id()
        moved = moved_into(one, (3, 17, 40))
        assert moved.int >> 16 == one.int >> 16
        assert moved.version == 7
        counts[partition_of(moved)] += 1
    assert set(counts) == {3, 17, 40}
    assert min(counts.values()) > 500


def test_an_id_beside_another_is_in_its_partition() -> None:
    ids = SystemIds()
    first, second = ids.task_id(), ids.task_id()
    made = beside(second, first)
    assert partition_of(made) == partition_of(first)
    assert made.int >> 16 == second.int >> 16


def test_lists_of_databases_that_are_others_are_refused() -> None:
    two = even_map(2)
    check_alone(None)
    check_alone(ShardLabel(HERE, 0, even_map(1)))
    with pytest.raises(InvalidConfiguration, match="shard 2 of 2; name all of them"):
        check_alone(ShardLabel(HERE, 1, two))
    check_label(ShardLabel(HERE, 1, two), 1, 2)
    with pytest.raises(InvalidConfiguration, match=r"number 1 of the databases .* is shard 2"):
        check_label(ShardLabel(HERE, 1, two), 0, 2)
    with pytest.raises(InvalidConfiguration, match=r"names 3 databases, .* of 2 shards"):
        check_label(ShardLabel(HERE, 1, two), 1, 3)
    with pytest.raises(InvalidConfiguration, match="different installations"):
        check_same([ShardLabel(HERE, 0, two), ShardLabel(THERE, 1, two)])
    newer = ShardMap(two.owners, version=2)
    with pytest.raises(InvalidConfiguration, match="different maps"):
        check_same([ShardLabel(HERE, 0, two), ShardLabel(HERE, 1, newer)])


def test_several_urls_are_told_apart_from_one_with_several_hosts() -> None:
    assert split_urls("") == ()
    assert split_urls("postgresql://a,b:5433/x") == ("postgresql://a,b:5433/x",)
    listed = "postgresql://a,b/x,postgres://c/y\n  postgresql://d/z,"
    assert split_urls(listed) == ("postgresql://a,b/x", "postgres://c/y", "postgresql://d/z")


def test_each_shard_has_settings_with_one_database() -> None:
    urls = "postgresql://a/x,postgresql://b/x"
    both = dataclasses.replace(Settings(), database_url=urls)
    assert [one.database_url for one in shard_settings(both)] == urls.split(",")
    assert shard_settings(Settings()) == (Settings(),)
    short = dataclasses.replace(both, database_direct_url="postgresql://a/x")
    with pytest.raises(InvalidConfiguration, match="2 databases and database_direct_url 1"):
        shard_settings(short)
    with pytest.raises(InvalidConfiguration, match="twice"):
        shard_settings(dataclasses.replace(both, database_url="postgresql://a,postgresql://a"))


def test_a_list_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mainspring.toml"
    file.write_text('database_url = ["postgresql://u:hunter2@a/x", "postgresql://b/y"]')
    settings = load(environ={}, directory=tmp_path)
    assert len(split_urls(settings.database_url)) == 2
    assert "hunter2" not in repr(settings)
