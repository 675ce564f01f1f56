"""Epochs of partitions: who may plan what."""

from collections.abc import Collection, Mapping
from typing import Final

from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.ports.coordination import Fence, PartitionState

_RAISE: Final = QUERIES["raise_epochs"]
_GIVE_UP: Final = QUERIES["give_up_epochs"]
_STATES: Final = QUERIES["partition_states"]


def fence_columns(fence: Fence | None) -> tuple[list[int] | None, list[int] | None]:
    """Return a fence as the arguments of a statement; no fence is NULL."""
    if fence is None:
        return None, None
    return list(fence.epochs), list(fence.epochs.values())


class Epoching(StorePart):
    """`ports.coordination.Epochs`, over the connections that nobody else can use up."""

    async def raise_epochs(self, partitions: Collection[int], owner: str) -> dict[int, int]:
        """Make someone the owner of partitions."""
        rows = await self._connections.leases.fetch(_RAISE, self._now(), list(partitions), owner)
        return {row["partition"]: row["epoch"] for row in rows}

    async def give_up_epochs(self, epochs: Mapping[int, int]) -> None:
        """Note that partitions have no owner any more."""
        columns = fence_columns(Fence(dict(epochs)))
        await self._connections.leases.fetch(_GIVE_UP, self._now(), *columns)

    async def partition_states(self) -> list[PartitionState]:
        """Return every partition with its owner."""
        rows = await self._connections.leases.fetch(_STATES)
        return [PartitionState(row["partition"], row["epoch"], row["owner"]) for row in rows]
