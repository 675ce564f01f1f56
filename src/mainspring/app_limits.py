"""The limits of queues: `app.limits`, and its blocking twin `app.sync.limits`."""

from collections.abc import Callable, Coroutine
from typing import Any, Unpack

from mainspring.core.lifecycle import Lifecycle
from mainspring.domain.limits import LimitKeywords, QueueLimits, checked_limit
from mainspring.wiring.sessions import Sessions


class AppLimits:
    """How many tasks of a queue, or of a group of it, may run at once (`concurrency`) and start in
    a second (`rate`, a number or text such as ``30/m``), and how many at once after a pause
    (`burst`). What is not given has no limit. They hold from the next claim on, and what runs goes
    on. Errors: `InvalidValue` names the field; `StoreUnavailable`.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def get(self, queue: str) -> QueueLimits:
        """Return the limits of a queue; none where nobody set any."""
        return await (await self._use()).limits(queue)

    async def set_queue(self, queue: str, **limit: Unpack[LimitKeywords]) -> None:
        """Limit all tasks of a queue together."""
        await (await self._use()).set_limits(queue, whole=checked_limit(**limit))

    async def set_groups(self, queue: str, **limit: Unpack[LimitKeywords]) -> None:
        """Limit each group of a queue by itself."""
        await (await self._use()).set_limits(queue, group=checked_limit(**limit))

    async def set_group(self, queue: str, group_key: str, **limit: Unpack[LimitKeywords]) -> None:
        """Limit one group of a queue, in place of the limit of every group."""
        await (await self._use()).set_group_limit(queue, group_key, checked_limit(**limit))

    async def drop_group(self, queue: str, group_key: str) -> None:
        """Give one group of a queue the limit of every group again."""
        await (await self._use()).set_group_limit(queue, group_key, None)

    async def _use(self) -> Lifecycle:
        return (await self._sessions.current()).lifecycle


class SyncLimits:
    """`app.sync.limits`: the verbs of `AppLimits`, blocking."""

    def __init__(self, limits: AppLimits, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._limits = limits
        self._run = run

    def get(self, queue: str) -> QueueLimits:
        """See `AppLimits.get`."""
        found: QueueLimits = self._run(self._limits.get(queue))
        return found

    def set_queue(self, queue: str, **limit: Unpack[LimitKeywords]) -> None:
        """See `AppLimits.set_queue`."""
        self._run(self._limits.set_queue(queue, **limit))

    def set_groups(self, queue: str, **limit: Unpack[LimitKeywords]) -> None:
        """See `AppLimits.set_groups`."""
        self._run(self._limits.set_groups(queue, **limit))

    def set_group(self, queue: str, group_key: str, **limit: Unpack[LimitKeywords]) -> None:
        """See `AppLimits.set_group`."""
        self._run(self._limits.set_group(queue, group_key, **limit))

    def drop_group(self, queue: str, group_key: str) -> None:
        """See `AppLimits.drop_group`."""
        self._run(self._limits.drop_group(queue, group_key))
