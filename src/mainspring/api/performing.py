"""Doing what a route is for, whichever way it was asked: in its time, and on record."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from mainspring.api.http import Call, Response
from mainspring.api.routes import PATIENCE_SECONDS, Recording, Route
from mainspring.core.auditing import AuditTrail, Written
from mainspring.core.patience import within
from mainspring.domain.errors import OutcomeUnknown
from mainspring.ports.access import AuditRecord

T = TypeVar("T")

_LEAST_SECONDS: Final = 0.2
"""What a part is given in any case, however long those before it took."""


class Performer:
    """Calls the handlers of routes and leaves their records in the audit."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    async def perform(self, route: Route, call: Call) -> Response:
        """Do it, and have on disk what was done before it is answered.

        One patience covers finding out who asks, the handler and the record: whoever waits does
        not care which of them an outage cut off.
        """
        patience = route.patience_seconds
        began = asyncio.get_running_loop().time() - call.spent_seconds
        if patience is not None:
            patience = max(_LEAST_SECONDS, patience - call.spent_seconds)
        response = await in_time(route.handler(call), patience)
        if route.action and route.recording is not Recording.WITH_TASKS:
            record = AuditRecord(
                actor=call.who.key_id,
                namespace=call.who.namespace,
                action=route.action,
                subject=response.audit_subject or " ".join(call.path.values()),
                address=call.address,
                request_id=call.request_id,
                count=response.audit_count,
            )
            left = began + PATIENCE_SECONDS - asyncio.get_running_loop().time()
            await self.record(route, record, max(_LEAST_SECONDS, left))
        return response

    async def record(
        self, route: Route, record: AuditRecord, seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Leave a record in the way of the route, within `seconds` if it has to be on disk."""
        if route.recording is Recording.SUMMED:
            self._trail.count(record)
        else:
            await in_time(_written(self._trail.add(record)), seconds)


async def in_time(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Return what work returns, or raise `OutcomeUnknown` when it takes too long."""
    try:
        return await within(seconds, work)
    except TimeoutError:
        raise OutcomeUnknown(
            "the task store did not answer in time, so nobody knows whether it was done; repeat it "
            "if it may be repeated, or look"
        ) from None


async def _written(record: Written) -> None:
    await record
