"""The leases a worker holds, from the claim until their endings are stored."""

import msgspec

from mainspring.core.registry import Mode
from mainspring.domain.task import Lease, LeaseRef
from mainspring.worker.messages import StopReason


class Held:
    """One lease in the hands of the agent. Times are seconds of the monotonic clock."""

    __slots__ = (
        "claimed_at",
        "dispatched_at",
        "expires_at",
        "is_committing",
        "is_settling",
        "lease",
        "mode",
        "number",
        "overdue_at",
        "progress",
        "stopped_at",
        "stopped_by",
    )

    def __init__(
        self, number: int, lease: Lease, mode: Mode, now: float, expires_at: float
    ) -> None:
        self.number = number
        self.lease = lease
        self.mode = mode
        self.claimed_at = now
        self.expires_at = expires_at
        """Until when the lease certainly lasts: counted from when its renewal was sent."""

        self.dispatched_at: float | None = None
        """Since when it has been in a runner; None while it waits here."""

        self.stopped_by: StopReason | None = None
        self.stopped_at = 0.0
        self.overdue_at: float | None = None
        """When the runner said that it had told the handler that its time is over."""

        self.is_committing = False
        self.is_settling = False
        """The handler has ended; what is left is to store how."""

        self.progress: str | None = None
        """Newest progress that is not stored yet."""

    @property
    def reference(self) -> LeaseRef:
        """The lease as the store knows it."""
        return LeaseRef(self.lease.id, self.lease.fencing_token)


Holdings = dict[int, Held]
"""Every lease held, by the number of its attempt."""


class WorkerStats(msgspec.Struct, kw_only=True):
    """What a worker has done since it started. `stale` and after are the exceptions."""

    claimed: int = 0
    completed: int = 0
    retried: int = 0
    failed: int = 0
    cancelled: int = 0
    released: int = 0
    stale: int = 0
    """Endings that the store refused, because the lease had been lost."""

    repeated: int = 0
    """Endings refused after an earlier try of them whose answer was lost: most were stored."""

    abandoned: int = 0
    """Endings that could not be stored before the lease was over."""

    lost: int = 0
    """Attempts that were stopped because their lease was lost."""

    runners_crashed: int = 0
    runners_killed: int = 0
    busy: int = 0
    """Attempts in runners now."""

    waiting: int = 0
    """Claimed tasks that wait for a free slot now."""
