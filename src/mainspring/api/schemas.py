"""What travels over the wire, and the bounds that the OpenAPI document tells.

Unknown fields are refused and only what stands here can be written.
"""

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mainspring.domain.placement import LABEL_LENGTH_MAX, LABELS_MAX
from mainspring.domain.priority import Level
from mainspring.domain.retry import BackoffKind
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.domain.webhooks import Event
from mainspring.ports.store import QueueState
from mainspring.ports.workers import WorkerState

_DATE: Final = (
    "(197[1-9]|19[89][0-9]|20[0-9]{2}|21[0-8][0-9])-"
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_TIME: Final = r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"

_INK: Final = (
    "^[^\\u0000-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]"
)
"""Begins with something that can be seen, in words that every dialect of patterns has."""

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$", min_length=1, max_length=200)
]
Label = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.-]+)?$",
        min_length=1,
        max_length=LABEL_LENGTH_MAX,
        examples=["gpu", "region=eu"],
    ),
]
Labels = Annotated[
    list[Label],
    Meta(max_length=LABELS_MAX, description="What the worker of the task has to offer"),
]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[ -~]+$")]
GroupKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern="^[ -~]+$",
        description="What it shares starts and limits by with other tasks of its queue",
    ),
]
UniqueKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern="^[ -~]+$",
        description=(
            "While a task with it (and the same group key) is live, it is answered and none is "
            "made; not together with `key`"
        ),
    ),
]
Priority = Annotated[int, Meta(ge=0, le=10)]
Instant = Annotated[
    str,
    Meta(
        pattern=f"^{_DATE}{_TIME}(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$",
        description="ISO 8601 with an offset from UTC, 1970 to 2199",
        examples=["2026-05-12T15:00:00Z"],
    ),
]
Seconds = Annotated[float, Meta(gt=0, le=30 * 86400)]
Delay = Annotated[float, Meta(ge=0, le=3653 * 86400)]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Reason = Annotated[str, Meta(max_length=1000)]
Limit = Annotated[int, Meta(ge=1, le=200)]
Cursor = Annotated[str, Meta(min_length=1, max_length=100)]
Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2048,
        pattern=(
            r"^https?://([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\.){1,4}[a-z]{2,20}"
            r"(:[1-9][0-9]{0,3})?([/?#][!-\[\]-~]*)?$"
        ),
        description="http or https, without a user; told when the task ends",
        examples=["https://example.com/hook"],
    ),
]
Ids = Annotated[list[UUID], Meta(min_length=1, max_length=10_000)]


class In(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Something that a client sends."""


class BackoffIn(In, frozen=True):
    """How long to wait between attempts, in seconds."""

    kind: BackoffKind
    base: Annotated[float, Meta(ge=0, le=30 * 86400)] | None = None
    multiplier: Annotated[float, Meta(gt=0, le=100)] | None = None
    max: Annotated[float, Meta(ge=0, le=30 * 86400)] | None = None


class WebhookIn(In, frozen=True):
    """Who is told when a task ends."""

    url: Url
    events: Annotated[list[Event], Meta(min_length=1)] | None = None
    sign: Name | None = None


class TaskIn(In, frozen=True):
    """A new task. It runs now, or at `scheduled_at`, or after `delay` seconds."""

    task_type: Name
    payload: dict[str, Any] | None = None
    queue: Name | None = None
    labels: Labels | None = None
    priority: Priority | None = None
    scheduled_at: Instant | None = None
    delay: Delay | None = None
    timeout: Seconds | None = None
    max_retries: Retries | None = None
    retry_backoff: BackoffKind | BackoffIn | None = None
    key: Key | None = None
    group_key: GroupKey | None = None
    unique_key: UniqueKey | None = None
    webhook: Url | WebhookIn | None = None


class BatchIn(In, frozen=True):
    """Up to 10,000 new tasks."""

    tasks: Annotated[list[TaskIn], Meta(max_length=10_000)]


class TaskQuery(In, frozen=True):
    """Which tasks to list; times compare with `created_at`."""

    status: TaskStatus | None = None
    ready: bool | None = None
    task_type: Name | None = None
    queue: Name | None = None
    schedule: Name | None = None
    group_key: Key | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class DeadLetterQuery(In, frozen=True):
    """Which dead letters to list."""

    task_type: Name | None = None
    queue: Name | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class CancelIn(In, frozen=True):
    """Why a task is cancelled."""

    reason: Reason | None = None


class RescheduleIn(In, frozen=True):
    """When a waiting task shall run instead."""

    scheduled_at: Instant


class ReplayIn(In, frozen=True):
    """Which dead letters run again: by ids, of a type, or all; with another payload if given."""

    ids: Ids | UnsetType = UNSET
    task_type: Name | UnsetType = UNSET
    all: bool = False
    payload: dict[str, Any] | UnsetType = UNSET


class DiscardIn(In, frozen=True):
    """Which dead letters are given up, and why."""

    reason: Annotated[str, Meta(min_length=1, max_length=1000, pattern=_INK)]
    ids: Ids | UnsetType = UNSET
    task_type: Name | UnsetType = UNSET
    all: bool = False


class SubmittedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was stored, or (`is_new` false) the one stored before under the same key or live
    with the same unique key.
    """

    task_id: UUID
    task_type: str
    queue: str
    labels: tuple[str, ...] = ()
    priority: int
    status: TaskStatus
    is_new: bool
    key: str | None = None
    group_key: str | None = None
    unique_key: str | None = None


class BatchItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one task of a batch: `status` is what it alone would have been answered."""

    status: int
    task_id: UUID | None = None
    code: str | None = None
    detail: str | None = None
    field: str | None = None


class BatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result for each task, in order."""

    results: list[BatchItem]
    stored: int
    failed: int


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks, newest first; `cursor` leads to the next ones, null at the end."""

    tasks: list[Task]
    cursor: str | None = None
    partial: bool = False
    """A part of the store did not answer, so what is in it is missing here."""


class CancelOut(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled`: it will never start. `cancelling`: it runs, and is being told."""

    task_id: UUID
    status: str


class StatusOut(msgspec.Struct, frozen=True, kw_only=True):
    """The status that a task has now."""

    task_id: UUID
    status: str


class IdsOut(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that something was done to."""

    task_ids: list[UUID]
    count: int


class QueuesOut(msgspec.Struct, frozen=True, kw_only=True):
    """All queues; counts stop at 100,000."""

    queues: list[QueueState]
    partial: bool = False


class QueueOut(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's switch."""

    queue: str
    paused: bool


class WorkersOut(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that are alive."""

    workers: list[WorkerState]
    partial: bool = False


class LevelOut(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a level is due, and whether new tasks of it are accepted."""

    level: Level
    ready: int
    oldest_seconds: float
    accepted: bool
    reason: str | None = None


class StatsOut(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the installation, a few seconds old."""

    levels: list[LevelOut]
    queues: int
    dead_letters: int | None
    """Of the installation; null for keys that may see only a part of it."""

    workers: int
    slots: int
    busy: int
    unplaceable: int
    """Due tasks that no live worker can take for the labels that they need."""

    turned_away: dict[str, int]
    """By level, of the installation; empty for keys that may see only a part of it."""

    store_answers_in_seconds: float
    partial: bool = False


class HealthOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the process, and each part it needs, works."""

    status: str
    parts: dict[str, str]
