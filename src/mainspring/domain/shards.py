"""Which shard of the task store keeps which partition.

A shard is one database with whole tasks in it: a task, its key, its schedule and its history are
all in the shard that keeps its partition. Shards are counted from 0 here, and from 1 by people.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import msgspec

from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.ids import PARTITIONS, partition_of

SHARDS_MAX: Final = PARTITIONS
"""More than these could not all keep something."""


class ShardMap(msgspec.Struct, frozen=True):
    """The shard of every partition."""

    owners: tuple[int, ...]
    version: int = 1
    """Rises with every change."""

    shards: int = 0
    """How many shards there are, those included that keep nothing yet; less than have a partition
    means as many as have one."""

    @property
    def count(self) -> int:
        """How many shards there are."""
        return max(max(self.owners) + 1, self.shards)

    def shard_of(self, task_id: UUID) -> int:
        """Return the shard that keeps a task, or a schedule, by its id."""
        return self.owners[partition_of(task_id)]

    def partitions_of(self, shard: int) -> tuple[int, ...]:
        """Return the partitions that a shard keeps."""
        return tuple(one for one, owner in enumerate(self.owners) if owner == shard)

    def moved(self, partitions: Collection[int], shard: int) -> "ShardMap":
        """Return the next version, in which these partitions are in a shard."""
        owners = (shard if one in partitions else owner for one, owner in enumerate(self.owners))
        return ShardMap(tuple(owners), self.version + 1, self.count)

    def widened(self, count: int) -> "ShardMap":
        """Return the next version, in which there are so many shards."""
        return ShardMap(self.owners, self.version + 1, count)


class ShardLabel(msgspec.Struct, frozen=True):
    """What is written in a shard: which one it is, of which installation, under which map."""

    installation: UUID
    shard: int
    map: ShardMap
    moving: tuple[int, ...] = ()
    """The partitions that are just leaving it: what is written to them is refused there."""

    is_settled: bool = True
    """Every shard has this version of the map."""

    lends: bool = False
    """Tasks that moved away while they ran are in use of places that limits of queues give it."""


def even_map(count: int) -> ShardMap:
    """Return the map that a new installation of so many shards gets: ranges of equal length."""
    check_count(count)
    owners = tuple(one * count // PARTITIONS for one in range(PARTITIONS))
    return ShardMap(owners, shards=count)


def check_count(count: int) -> None:
    """Refuse more shards than there are partitions."""
    if not 1 <= count <= SHARDS_MAX:
        raise InvalidConfiguration(
            f"database_url names {count} databases; the most is {SHARDS_MAX}, one a partition"
        )


def check_alone(label: ShardLabel | None) -> None:
    """Refuse to use one shard of several as if it were everything."""
    if label is not None and label.map.count > 1:
        raise InvalidConfiguration(
            f"database_url names one database, and that is shard {label.shard + 1} of "
            f"{label.map.count}; name all of them, in their order, separated by commas"
        )


def check_label(label: ShardLabel, place: int, count: int) -> None:
    """Refuse a database that is not the shard for which the list of databases takes it."""
    if label.map.count < count:
        raise InvalidConfiguration(
            f"database_url names {count} databases, and number {place + 1} of them belongs to an "
            f"installation of {label.map.count} shards; name exactly those, in their order, or "
            "run `mainspring shards add` if the last ones are to be shards of it, too"
        )
    if label.map.count > count:
        raise InvalidConfiguration(
            f"database_url names {count} databases, and number {place + 1} of them belongs to an "
            f"installation of {label.map.count} shards; name exactly those, in their order"
        )
    check_place(label, place)


def check_place(label: ShardLabel, place: int) -> None:
    """Refuse a shard that has another number than its place in the list of databases."""
    if label.shard != place:
        raise InvalidConfiguration(
            f"number {place + 1} of the databases in database_url is shard {label.shard + 1}; "
            "name the databases in the order in which `mainspring migrate` first saw them"
        )


def check_same(labels: Sequence[ShardLabel]) -> None:
    """Refuse shards of different installations, or under maps that do not fit together. While
    partitions move, some may have the version before the newest one.
    """
    check_installation(labels)
    maps = {label.map for label in labels}
    versions = {one.version for one in maps}
    newest = [label for label in labels if label.map.version == max(versions)]
    is_changing = max(versions, default=0) - min(versions, default=0) == 1 and any(
        not label.is_settled for label in newest
    )
    if len(versions) < len(maps) or (len(versions) > 1 and not is_changing):
        raise InvalidConfiguration(
            "the databases in database_url have different maps of shards; one of them was "
            "probably restored from an old backup"
        )


def check_installation(labels: Sequence[ShardLabel]) -> None:
    """Refuse shards of different installations."""
    if len({label.installation for label in labels}) > 1:
        raise InvalidConfiguration(
            "the databases in database_url belong to different installations; name the shards of "
            "one of them"
        )


def newest_map(labels: Sequence[ShardLabel]) -> ShardMap:
    """Return the map that counts: that of the highest version."""
    return max((label.map for label in labels), key=lambda one: one.version)


def leaving(labels: Sequence[ShardLabel], shard_map: ShardMap) -> frozenset[int]:
    """Return the partitions that are refused for now by the shards that keep them."""
    return frozenset(
        one for label in labels for one in label.moving if shard_map.owners[one] == label.shard
    )
