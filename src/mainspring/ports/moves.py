"""Moves of partitions, as those see them who look after an installation."""

from typing import Protocol

import msgspec

from mainspring.domain.moves import Move


class Relieved(msgspec.Struct, frozen=True):
    """What a process that is gone had left, and somebody else has brought to an end."""

    move: Move
    was_decided: bool
    """Then it is finished. Otherwise its partitions are where they were and refused no more."""

    seconds: float | None
    """For how long they were refused; None: they were not any more."""


class Moves(Protocol):
    """Looks after what moves leave behind. Any number of processes may do so at a time."""

    async def relieve(self) -> Relieved | None:
        """Look once, and see to it that nothing stays refused for want of somebody at it.

        Raises `Unavailable` when it cannot be told or done now.
        """
        ...

    async def take_places_back(self) -> int:
        """Take back the places in limits of queues that tasks took along when they moved while they
        ran, as far as those have ended; return how many. What cannot be told now stays as it is.
        """
        ...
