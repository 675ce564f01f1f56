"""The leases a worker holds, from the claim until their endings are stored."""

import msgspec

from mainspring.core.registry import Mode
from mainspring.domain.task import Lease, LeaseRef
from mainspring.worker.messages import StopReason


class Held(msgspec.Struct, eq=False, gc=False):
    """One lease in the hands of the agent. Times are seconds of the monotonic clock."""

    number: int
    lease: Lease
    mode: Mode
    claimed_at: float
    expires_at: float
    """Until when the lease certainly lasts: counted from when its renewal was sent."""

    locked_until: float | None = None
    """Until when the lock of an exclusive task certainly lasts."""

    dispatched_at: float | None = None
    """Since when it has been in a runner; None while it waits here."""

    stopped_by: StopReason | None = None
    stopped_at: float = 0.0
    overdue_at: float | None = None
    """When the runner said that it had told the handler that its time is over."""

    is_committing: bool = False
    is_settling: bool = False
    """The handler has ended; what is left is to store how."""

    progress: str | None = None
    """Newest progress that is not stored yet."""

    @property
    def certain_until(self) -> float:
        """Until when nobody else may run the task: a handler begins before this or not at all."""
        if self.locked_until is None:
            return self.expires_at
        return min(self.expires_at, self.locked_until)

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
