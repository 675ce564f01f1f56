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


class AbandonedMoves(Protocol):
    """Looks after moves that nobody is at any more. Any number of processes may do so at a time."""

    async def relieve(self) -> Relieved | None:
        """Look once, and see to it that nothing stays refused for want of somebody at it.

        Raises `Unavailable` when it cannot be told or done now.
        """
        ...
