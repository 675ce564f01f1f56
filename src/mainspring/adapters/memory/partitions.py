"""Epochs of partitions: who may plan what."""

from collections.abc import Collection, Mapping
from uuid import UUID

from mainspring.domain.ids import PARTITIONS, partition_of
from mainspring.ports.coordination import Fence, PartitionState


def is_in(fence: Fence | None, schedule_id: UUID) -> bool:
    """Whether a schedule is in the partitions that someone asks for."""
    return fence is None or partition_of(schedule_id) in fence.epochs


class MemoryEpochs:
    """`ports.coordination.Epochs`."""

    def __init__(self) -> None:
        self._epochs = [0] * PARTITIONS
        self._owners: list[str | None] = [None] * PARTITIONS

    def holds(self, fence: Fence | None, schedule_id: UUID) -> bool:
        """Whether someone may write to a schedule."""
        partition = partition_of(schedule_id)
        return fence is None or fence.epochs.get(partition) == self._epochs[partition]

    async def raise_epochs(self, partitions: Collection[int], owner: str) -> dict[int, int]:
        """Make someone the owner of partitions."""
        for one in partitions:
            self._epochs[one] += 1
            self._owners[one] = owner
        return {one: self._epochs[one] for one in partitions}

    async def give_up_epochs(self, epochs: Mapping[int, int]) -> None:
        """Note that partitions have no owner any more."""
        for one, epoch in epochs.items():
            if self._epochs[one] == epoch:
                self._owners[one] = None

    async def partition_states(self) -> list[PartitionState]:
        """Return every partition with its owner."""
        return [
            PartitionState(one, epoch, owner)
            for one, (epoch, owner) in enumerate(zip(self._epochs, self._owners, strict=True))
        ]
