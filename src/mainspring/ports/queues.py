"""The switches and limits of queues, by the rules of `ports.store`."""

from typing import Protocol

from mainspring.domain.limits import Limit, QueueLimits


class Queues(Protocol):
    """The switches and limits of queues."""

    async def pause(self, queue: str) -> None:
        """Let no task of the queue start until it is resumed; running ones go on."""
        ...

    async def resume(self, queue: str) -> None:
        """Let the tasks of the queue start again."""
        ...

    async def set_limits(
        self, queue: str, *, whole: Limit | None = None, group: Limit | None = None
    ) -> None:
        """Replace the limit of a queue, that of each of its groups, or both (None: as it is); they
        hold from the next claim on. What runs meanwhile goes on. A queue may be limited before its
        first task. Raises `InvalidValue` where the store is in parts and the limit of the queue
        is too low to be divided among them.
        """
        ...

    async def set_group_limit(self, queue: str, group_key: str, limit: Limit | None) -> None:
        """Give one group of a queue a limit of its own in place of that of every group; None: no
        longer. A group may be limited before its first task. Raises `InvalidValue` when
        `GROUP_LIMITS_MAX` groups of the queue have one.
        """
        ...

    async def limits(self, queue: str) -> QueueLimits:
        """Return the limits of a queue; none where nobody set any."""
        ...
