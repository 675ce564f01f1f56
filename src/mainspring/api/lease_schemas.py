"""What workers over the network and the API tell each other."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from mainspring.api.schemas import In, Label, Name
from mainspring.domain.placement import OFFERED_MAX
from mainspring.domain.priority import Level
from mainspring.domain.task import FailureKind

Error = Annotated[str, Meta(min_length=1, max_length=8192)]
Token = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ClaimIn(In, frozen=True):
    """What a worker can take now; it may wait for it for a while."""

    worker_id: Name
    task_types: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    queues: Annotated[list[Name], Meta(min_length=1, max_length=1000)] | None = None
    levels: Annotated[list[Level], Meta(min_length=1, max_length=5)] | None = None
    labels: Annotated[
        tuple[Label, ...],
        Meta(max_length=OFFERED_MAX, description="What the worker offers to tasks that need it"),
    ] = ()
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class LeaseIn(In, frozen=True):
    """Names one lease."""

    task_id: UUID
    fencing_token: Token


class HeartbeatIn(In, frozen=True):
    """The leases that a worker still works on."""

    worker_id: Name
    leases: Annotated[list[LeaseIn], Meta(min_length=1, max_length=1000)]
    lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0


class CompleteIn(In, frozen=True):
    """An attempt that is done."""

    worker_id: Name
    task_id: UUID
    fencing_token: Token
    result: Any = None


class FailIn(In, frozen=True):
    """An attempt that did not complete.

    With `retry` false it goes straight to the dead letters; `retry_after` replaces the back-off;
    `cancelled` says that it stopped because it was told to; `release` hands it back uncharged.
    """

    worker_id: Name
    task_id: UUID
    fencing_token: Token
    error: Error
    kind: FailureKind = FailureKind.ERROR
    traceback: Annotated[str, Meta(max_length=65536)] = ""
    retry: bool = True
    retry_after: Annotated[float, Meta(ge=0, le=30 * 86400)] | None = None
    cancelled: bool = False
    release: bool = False


class ProgressIn(In, frozen=True):
    """How far a running task is."""

    task_id: UUID
    fencing_token: Token
    progress: Any


class SlotsIn(In, frozen=True):
    """How many tasks a worker runs at a time."""

    slots: Annotated[int, Meta(ge=0, le=1000)]


class LeaseOut(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task, for the worker that asked."""

    task_id: UUID
    fencing_token: int
    task_type: str
    payload: msgspec.Raw
    queue: str
    priority: int
    level: Level
    attempt: int
    max_retries: int
    timeout: float
    scheduled_at: datetime
    created_at: datetime
    lease_seconds: float


class LeasesOut(msgspec.Struct, frozen=True, kw_only=True):
    """What was claimed, in the order to start it in."""

    leases: list[LeaseOut]


class RenewalOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a lease is still held, and whether its task shall stop."""

    task_id: UUID
    fencing_token: int
    held: bool
    cancel_requested: bool


class RenewalsOut(msgspec.Struct, frozen=True, kw_only=True):
    """One answer for each lease, in order."""

    leases: list[RenewalOut]
