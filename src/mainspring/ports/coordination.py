"""Which schedulers are alive, and which of them may plan for which partition.

A scheduler joins with a name that no other process start ever has, and is a member for as long as
it renews its session. Partitions have keys, each held by one member at most and free when that
member's session ends. All this is advice with a time limit, as any lease is: a holder that stands
still finds out too late. So a holder asks the task store for an epoch before it plans, and the
store refuses what comes under an epoch that is not the latest.

Times are measured from when a request was *sent*, by the monotonic clock of the process: then a
session never lasts less long than its member believes.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec


class View(msgspec.Struct, frozen=True):
    """Who is there and who holds what. Out of date as soon as it is made."""

    members: frozenset[str]
    holders: dict[int, str]
    """The member that holds the key of a partition; free ones are left out."""


class Session(Protocol):
    """The membership of one process start.

    Methods raise `Unavailable` when the coordination cannot be reached, which says nothing about
    the session. All may be repeated after that.
    """

    @property
    def ttl_seconds(self) -> float:
        """How long the session lasts after a renewal, as the coordination granted it."""
        ...

    async def renew(self) -> bool:
        """Let the session last from now on; False when it is over, and everything with it."""
        ...

    async def view(self) -> View:
        """Return the members and holders, at least as new as everything this session did."""
        ...

    async def changed(self, timeout_seconds: float) -> None:
        """Return when the view may have changed, at the latest after this time."""
        ...

    async def acquire(self, partitions: Collection[int]) -> frozenset[int]:
        """Take the keys that are free; returns those of them that this session holds then."""
        ...

    async def release(self, partitions: Collection[int]) -> None:
        """Give keys back. Those that this session does not hold stay as they are."""
        ...

    async def leave(self) -> None:
        """End the session and give all its keys back at once."""
        ...


class Coordination(Protocol):
    """Where schedulers meet."""

    async def join(self, member: str, ttl_seconds: float) -> Session:
        """Begin a session. The coordination may grant a longer one than was asked for."""
        ...

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...


class Fence(msgspec.Struct, frozen=True):
    """What a scheduler believes to own: the epoch of each of its partitions."""

    epochs: dict[int, int]


class PartitionState(msgspec.Struct, frozen=True):
    """What the task store knows of a partition."""

    partition: int
    epoch: int
    owner: str | None
    """Who was given the epoch; None: nobody has it any more."""


class Epochs(Protocol):
    """The part of the task store that issues epochs and refuses old ones."""

    async def raise_epochs(self, partitions: Collection[int], owner: str) -> dict[int, int]:
        """Make someone the owner of partitions under epochs that never were before.

        Those for which a plan is just being stored are left out; ask again.
        """
        ...

    async def give_up_epochs(self, epochs: Mapping[int, int]) -> None:
        """Note that partitions have no owner any more, where the epoch is still this one."""
        ...

    async def partition_states(self) -> list[PartitionState]:
        """Return every partition with its owner, in their order."""
        ...
