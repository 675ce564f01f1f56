"""The limits of queues and of their groups."""

from collections.abc import Iterator
from typing import Final

from mainspring.api.http import Call, Response
from mainspring.api.limit_schemas import GroupDroppedOut, LimitIn, QueueLimitsIn, limit_given
from mainspring.api.routes import Route
from mainspring.core.gateway import Gateway
from mainspring.core.limit_view import GroupLimitView, QueueLimitsView, view_of
from mainspring.domain.errors import InvalidValue
from mainspring.ports.access import Scope

_TAG: Final = "queues"
_PATH: Final = "/v1/queues/{name}/limits"


class LimitRoutes:
    """The handlers for limits."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> Iterator[Route]:
        """Yield the routes for limits."""
        yield Route(
            method="GET",
            path=_PATH,
            handler=self.limits,
            scope=Scope.READ,
            summary="Look at the limits of a queue and of its groups",
            tag=_TAG,
            answers={200: QueueLimitsView},
        )
        yield Route(
            method="PUT",
            path=_PATH,
            handler=self.set_limits,
            scope=Scope.ADMIN,
            summary="Limit a queue as a whole, or each of its groups; what is not given stays",
            tag=_TAG,
            body=QueueLimitsIn,
            answers={200: QueueLimitsView},
            action="queue.limit",
        )
        yield Route(
            method="PUT",
            path=f"{_PATH}/groups/{{group_key}}",
            handler=self.set_group_limit,
            scope=Scope.ADMIN,
            summary="Give one group of a queue a limit in place of that of every group",
            tag=_TAG,
            body=LimitIn,
            answers={200: GroupLimitView},
            action="queue.limit_group",
        )
        yield Route(
            method="DELETE",
            path=f"{_PATH}/groups/{{group_key}}",
            handler=self.drop_group_limit,
            scope=Scope.ADMIN,
            summary="Give one group of a queue the limit of every group again",
            tag=_TAG,
            answers={200: GroupDroppedOut},
            action="queue.unlimit_group",
        )

    async def limits(self, call: Call) -> Response:
        """Look at the limits of a queue."""
        return Response(value=view_of(await self._gateway.limits(call.who, call.path["name"])))

    async def set_limits(self, call: Call) -> Response:
        """Limit a queue, or each of its groups."""
        body: QueueLimitsIn = call.body
        queue = call.path["name"]
        whole = limit_given(body.queue, "queue.")
        group = limit_given(body.group, "group.")
        if whole is None and group is None:
            message = "nothing is given; give queue, group, or both, and {} for no limit"
            raise InvalidValue(message, field="queue")
        try:
            limits = await self._gateway.set_limits(call.who, queue, whole=whole, group=group)
        except InvalidValue as error:
            # Where the tasks are divided, a low limit of the queue cannot be.
            where = "queue." if error.field in {"concurrency", "burst"} else ""
            raise InvalidValue(f"{where}{error.message}", field=f"{where}{error.field}") from None
        return Response(value=view_of(limits))

    async def set_group_limit(self, call: Call) -> Response:
        """Limit one group."""
        body: LimitIn = call.body
        key = call.path["group_key"]
        limit = body.limit()
        await self._gateway.set_group_limit(call.who, call.path["name"], key, limit)
        return Response(value=GroupLimitView(group_key=key, limit=limit))

    async def drop_group_limit(self, call: Call) -> Response:
        """Take the limit of one group back."""
        key = call.path["group_key"]
        await self._gateway.set_group_limit(call.who, call.path["name"], key, None)
        return Response(value=GroupDroppedOut(group_key=key))
