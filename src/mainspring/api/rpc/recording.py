"""What workers do on their streams, summed for the audit as it is for their single calls."""

from collections.abc import Sequence
from typing import Final

from mainspring.api.rpc.gate import Caller
from mainspring.core.auditing import AuditTrail
from mainspring.core.work_stream import Ended, Given, Said
from mainspring.domain.errors import MainspringError
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import LeaseRef, Renewal
from mainspring.ports.access import AuditRecord

_CLAIM: Final = "lease.claim"
_COMPLETE: Final = "lease.complete"
_FAIL: Final = "lease.fail"
_RENEW: Final = "lease.renew"
_PROGRESS: Final = "lease.progress"


class Recorder:
    """Counts for the audit."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    def of(self, caller: Caller) -> "Notes":
        """Return what counts for one stream."""
        return Notes(self._trail, caller)


class Notes:
    """Counts what is said on one stream."""

    def __init__(self, trail: AuditTrail, caller: Caller) -> None:
        self._trail = trail
        self._caller = caller

    def said(self, said: Said) -> None:
        """Count what the worker is told."""
        if isinstance(said, Given):
            self._count(_CLAIM, str(said.lease.id))
        elif isinstance(said, Ended) and not isinstance(said.outcome, MainspringError):
            is_done = said.outcome == TaskStatus.COMPLETED
            self._count(_COMPLETE if is_done else _FAIL, str(said.lease.id))

    def renewed(self, renewals: Sequence[Renewal]) -> None:
        """Count the leases that a heartbeat has renewed."""
        held = [renewal for renewal in renewals if renewal.held]
        if held:
            self._count(_RENEW, str(held[0].id), len(held))

    def progressed(self, lease: LeaseRef) -> None:
        """Count what the worker said of its progress."""
        self._count(_PROGRESS, str(lease.id))

    def _count(self, action: str, subject: str, count: int = 1) -> None:
        who = self._caller.who
        self._trail.count(
            AuditRecord(
                actor=who.key_id,
                namespace=who.namespace,
                action=action,
                subject=subject,
                address=self._caller.address,
                request_id=self._caller.request_id,
                count=count,
            )
        )
