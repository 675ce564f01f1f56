"""Which shard of the task store keeps which partition.

A shard is one database with whole tasks in it: a task, its key, its schedule and its history are
all in the shard that keeps its partition. Shards are counted from 0 here, and from 1 by people.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.ids import PARTITIONS, partition_of

SHARDS_MAX: Final = PARTITIONS
"""A shard without a partition would keep nothing."""


class ShardMap(msgspec.Struct, frozen=True):
    """The shard of every partition."""

    owners: tuple[int, ...]
    version: int = 1
    """Rises with every change."""

    @property
    def count(self) -> int:
        """How many shards there are."""
        return max(self.owners) + 1

    def shard_of(self, task_id: UUID) -> int:
        """Return the shard that keeps a task, or a schedule, by its id."""
        return self.owners[partition_of(task_id)]

    def partitions_of(self, shard: int) -> tuple[int, ...]:
        """Return the partitions that a shard keeps."""
        return tuple(one for one, owner in enumerate(self.owners) if owner == shard)


class ShardLabel(msgspec.Struct, frozen=True):
    """What is written in a shard: which one it is, of which installation, under which map."""

    installation: UUID
    shard: int
    map: ShardMap


def even_map(count: int) -> ShardMap:
    """Return the map that a new installation of so many shards gets: ranges of equal length."""
    if not 1 <= count <= SHARDS_MAX:
        raise InvalidConfiguration(
            f"database_url names {count} databases; the most is {SHARDS_MAX}, one a partition"
        )
    return ShardMap(tuple(one * count // PARTITIONS for one in range(PARTITIONS)))


def check_alone(label: ShardLabel | None) -> None:
    """Refuse to use one shard of several as if it were everything."""
    if label is not None and label.map.count > 1:
        raise InvalidConfiguration(
            f"database_url names one database, and that is shard {label.shard + 1} of "
            f"{label.map.count}; name all of them, in their order, separated by commas"
        )


def check_label(label: ShardLabel, place: int, count: int) -> None:
    """Refuse a database that is not the shard for which the list of databases takes it."""
    if label.map.count != count:
        raise InvalidConfiguration(
            f"database_url names {count} databases, and number {place + 1} of them belongs to an "
            f"installation of {label.map.count} shards; name exactly those, in their order"
        )
    if label.shard != place:
        raise InvalidConfiguration(
            f"number {place + 1} of the databases in database_url is shard {label.shard + 1}; "
            "name the databases in the order in which `mainspring migrate` first saw them"
        )


def check_same(labels: Sequence[ShardLabel]) -> None:
    """Refuse shards of different installations, or under different maps."""
    if len({label.installation for label in labels}) > 1:
        raise InvalidConfiguration(
            "the databases in database_url belong to different installations; name the shards of "
            "one of them"
        )
    if len({label.map for label in labels}) > 1:
        raise InvalidConfiguration(
            "the databases in database_url have different maps of shards; one of them was "
            "probably restored from an old backup"
        )
