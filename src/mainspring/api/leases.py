"""Leases: how workers in any language claim tasks, keep them and end them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec

from mainspring.api.http import Call, Response
from mainspring.api.lease_schemas import (
    ClaimIn,
    CompleteIn,
    FailIn,
    HeartbeatIn,
    LeaseOut,
    LeasesOut,
    RenewalOut,
    RenewalsOut,
)
from mainspring.api.routes import Recording, Route
from mainspring.api.schemas import StatusOut
from mainspring.core.json_encoding import encode
from mainspring.core.remote_work import Offer, RemoteWork, Report
from mainspring.domain.placement import check_offered
from mainspring.domain.priority import lane_of
from mainspring.domain.task import (
    Cancelled,
    Completed,
    Ending,
    Lease,
    LeaseRef,
    Released,
    Renewal,
)
from mainspring.domain.values import clip_text, hide_secrets
from mainspring.ports.access import Scope


class LeaseRoutes:
    """The handlers of leases."""

    def __init__(self, work: RemoteWork) -> None:
        self._work = work

    def routes(self) -> Iterator[Route]:
        """Yield the routes of leases."""
        yield Route(
            method="POST",
            path="/v1/leases",
            handler=self.claim,
            scope=Scope.WORK,
            summary="Claim due tasks, waiting for some if there are none yet",
            tag="leases",
            body=ClaimIn,
            answers={200: LeasesOut},
            problems=(403,),
            patience_seconds=None,
            action="lease.claim",
            recording=Recording.SUMMED,
        )
        yield Route(
            method="POST",
            path="/v1/leases/heartbeat",
            handler=self.heartbeat,
            scope=Scope.WORK,
            summary="Renew leases, and learn which are lost and which tasks shall stop",
            tag="leases",
            body=HeartbeatIn,
            answers={200: RenewalsOut},
            action="lease.renew",
            recording=Recording.SUMMED,
        )
        yield Route(
            method="POST",
            path="/v1/leases/complete",
            handler=self.complete,
            scope=Scope.WORK,
            summary="End an attempt that is done",
            tag="leases",
            body=CompleteIn,
            answers={200: StatusOut},
            problems=(404, 409),
            action="lease.complete",
            recording=Recording.SUMMED,
        )
        yield Route(
            method="POST",
            path="/v1/leases/fail",
            handler=self.fail,
            scope=Scope.WORK,
            summary="End an attempt that did not complete",
            tag="leases",
            body=FailIn,
            answers={200: StatusOut},
            problems=(404, 409),
            action="lease.fail",
            recording=Recording.SUMMED,
        )

    async def claim(self, call: Call) -> Response:
        """Claim tasks."""
        body: ClaimIn = call.body
        async with _watched(call) as has_left:
            leases = await self._work.claim(call.who, offer_of(body), has_left)
        out = [lease_out(lease, body.lease_seconds) for lease in leases]
        return _counted(LeasesOut(leases=out), [lease.id for lease in leases])

    async def heartbeat(self, call: Call) -> Response:
        """Renew leases."""
        body: HeartbeatIn = call.body
        held = [LeaseRef(lease.task_id, lease.fencing_token) for lease in body.leases]
        renewals = await self._work.heartbeat(call.who, body.worker_id, held, body.lease_seconds)
        out = [renewal_out(renewal) for renewal in renewals]
        held_ids = [renewal.id for renewal in renewals if renewal.held]
        return _counted(RenewalsOut(leases=out), held_ids)

    async def complete(self, call: Call) -> Response:
        """End an attempt as done."""
        body: CompleteIn = call.body
        lease = LeaseRef(body.task_id, body.fencing_token)
        status = await self._work.end(call.who, body.worker_id, lease, completed(body))
        return _status(body.task_id, status)

    async def fail(self, call: Call) -> Response:
        """End an attempt in any other way."""
        body: FailIn = call.body
        lease = LeaseRef(body.task_id, body.fencing_token)
        status = await self._work.end(call.who, body.worker_id, lease, not_completed(body))
        return _status(body.task_id, status)


def offer_of(body: ClaimIn) -> Offer:
    """Return what a worker says that it can take."""
    return Offer(
        worker_id=body.worker_id,
        task_types=tuple(sorted(set(body.task_types))),
        queues=None if body.queues is None else tuple(body.queues),
        lanes=None if body.levels is None else tuple(map(lane_of, body.levels)),
        labels=check_offered(body.labels),
        limit=body.limit,
        lease_seconds=body.lease_seconds,
        wait_seconds=body.wait_seconds,
    )


def completed(body: CompleteIn) -> Completed:
    """Return the end of an attempt that is done."""
    return Completed(encode(body.result, "result"))


def not_completed(body: FailIn) -> Ending | Report:
    """Return the end of an attempt that is not."""
    error = " ".join(clip_text(hide_secrets(body.error)).split())
    if body.cancelled:
        return Cancelled(error)
    if body.release:
        return Released(body.retry_after or 0.0)
    return Report(
        error=error,
        kind=body.kind,
        traceback=clip_text(hide_secrets(body.traceback)),
        retry=body.retry,
        retry_after=body.retry_after,
    )


def renewal_out(renewal: Renewal) -> RenewalOut:
    """Return the answer to the renewal of one lease."""
    return RenewalOut(
        task_id=renewal.id,
        fencing_token=renewal.fencing_token,
        held=renewal.held,
        cancel_requested=renewal.cancel_requested,
    )


def lease_out(lease: Lease, lease_seconds: float) -> LeaseOut:
    """Return a lease as workers get it."""
    return LeaseOut(
        task_id=lease.id,
        fencing_token=lease.fencing_token,
        task_type=lease.task_type,
        payload=msgspec.Raw(lease.payload.encode()),
        queue=lease.queue,
        priority=lease.priority,
        level=lease.lane,
        attempt=lease.attempt,
        max_retries=lease.max_retries,
        timeout=lease.timeout_seconds,
        scheduled_at=lease.scheduled_at,
        created_at=lease.created_at,
        lease_seconds=lease_seconds,
    )


def _status(task_id: UUID, status: str) -> Response:
    return _counted(StatusOut(task_id=task_id, status=status), [task_id])


@asynccontextmanager
async def _watched(call: Call) -> AsyncIterator[Callable[[], bool]]:
    """Yield what tells whether who asks is gone by now."""
    if call.left is None:
        yield _stays
        return
    leaving = asyncio.ensure_future(call.left())
    try:
        yield leaving.done
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)


def _stays() -> bool:
    return False


def _counted(value: object, ids: Sequence[UUID]) -> Response:
    """An answer for which the audit counts tasks and names the first and the last one."""
    ends = dict.fromkeys([str(ids[0]), str(ids[-1])]) if ids else {}
    return Response(value=value, audit_subject=" ".join(ends), audit_count=len(ids))
