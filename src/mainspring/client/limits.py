"""The limits of queues: `client.limits`, and its blocking twin."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from mainspring.client import operator_requests
from mainspring.client.exchange import Request, given
from mainspring.domain.limits import LimitKeywords

Answer = dict[str, Any]


class ClientLimits:
    """`Client.limits`: how many tasks of a queue, or of a group of it, may run at once
    (`concurrency`) and start in a second (`rate`, a number or text such as ``30/m``), and how many
    at once after a pause (`burst`). What is not given has no limit.
    """

    def __init__(self, call: Callable[[Request[Answer]], Awaitable[Answer]]) -> None:
        self._call = call

    async def get(self, queue: str) -> Answer:
        """Return the limits: of the `queue`, of each `group`, and of single `groups`."""
        return await self._call(operator_requests.queue_limits(queue))

    async def set_queue(self, queue: str, **limit: Unpack[LimitKeywords]) -> Answer:
        """Limit all tasks of a queue together; returns its limits."""
        return await self._call(operator_requests.limit_queue(queue, given(**limit), None))

    async def set_groups(self, queue: str, **limit: Unpack[LimitKeywords]) -> Answer:
        """Limit each group of a queue by itself; returns the limits of the queue."""
        return await self._call(operator_requests.limit_queue(queue, None, given(**limit)))

    async def set_group(self, queue: str, group_key: str, **limit: Unpack[LimitKeywords]) -> None:
        """Limit one group of a queue, in place of the limit of every group."""
        await self._call(operator_requests.limit_group(queue, group_key, given(**limit)))

    async def drop_group(self, queue: str, group_key: str) -> None:
        """Give one group of a queue the limit of every group again."""
        await self._call(operator_requests.unlimit_group(queue, group_key))


class SyncClientLimits:
    """`SyncClient.limits`: the verbs of `ClientLimits`, blocking."""

    def __init__(self, call: Callable[[Request[Answer]], Answer]) -> None:
        self._call = call

    def get(self, queue: str) -> Answer:
        """See `ClientLimits.get`."""
        return self._call(operator_requests.queue_limits(queue))

    def set_queue(self, queue: str, **limit: Unpack[LimitKeywords]) -> Answer:
        """See `ClientLimits.set_queue`."""
        return self._call(operator_requests.limit_queue(queue, given(**limit), None))

    def set_groups(self, queue: str, **limit: Unpack[LimitKeywords]) -> Answer:
        """See `ClientLimits.set_groups`."""
        return self._call(operator_requests.limit_queue(queue, None, given(**limit)))

    def set_group(self, queue: str, group_key: str, **limit: Unpack[LimitKeywords]) -> None:
        """See `ClientLimits.set_group`."""
        self._call(operator_requests.limit_group(queue, group_key, given(**limit)))

    def drop_group(self, queue: str, group_key: str) -> None:
        """See `ClientLimits.drop_group`."""
        self._call(operator_requests.unlimit_group(queue, group_key))
