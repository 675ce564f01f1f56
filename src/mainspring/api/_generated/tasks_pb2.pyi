from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATUS_UNSPECIFIED: _ClassVar[TaskStatus]
    TASK_STATUS_PENDING: _ClassVar[TaskStatus]
    TASK_STATUS_RUNNING: _ClassVar[TaskStatus]
    TASK_STATUS_RETRYING: _ClassVar[TaskStatus]
    TASK_STATUS_COMPLETED: _ClassVar[TaskStatus]
    TASK_STATUS_FAILED: _ClassVar[TaskStatus]
    TASK_STATUS_CANCELLED: _ClassVar[TaskStatus]
    TASK_STATUS_DISCARDED: _ClassVar[TaskStatus]

class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEVEL_UNSPECIFIED: _ClassVar[Level]
    LEVEL_CRITICAL: _ClassVar[Level]
    LEVEL_HIGH: _ClassVar[Level]
    LEVEL_NORMAL: _ClassVar[Level]
    LEVEL_LOW: _ClassVar[Level]
    LEVEL_BATCH: _ClassVar[Level]

class BackoffKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKOFF_KIND_UNSPECIFIED: _ClassVar[BackoffKind]
    BACKOFF_KIND_EXPONENTIAL: _ClassVar[BackoffKind]
    BACKOFF_KIND_LINEAR: _ClassVar[BackoffKind]
    BACKOFF_KIND_FIXED: _ClassVar[BackoffKind]

class FailureKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_KIND_UNSPECIFIED: _ClassVar[FailureKind]
    FAILURE_KIND_ERROR: _ClassVar[FailureKind]
    FAILURE_KIND_TIMEOUT: _ClassVar[FailureKind]
    FAILURE_KIND_CRASHED: _ClassVar[FailureKind]
    FAILURE_KIND_LEASE_EXPIRED: _ClassVar[FailureKind]
    FAILURE_KIND_INVALID_PAYLOAD: _ClassVar[FailureKind]
    FAILURE_KIND_INVALID_RESULT: _ClassVar[FailureKind]
    FAILURE_KIND_FINAL: _ClassVar[FailureKind]

class CancelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_STATE_UNSPECIFIED: _ClassVar[CancelState]
    CANCEL_STATE_CANCELLED: _ClassVar[CancelState]
    CANCEL_STATE_CANCELLING: _ClassVar[CancelState]

class WebhookEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WEBHOOK_EVENT_UNSPECIFIED: _ClassVar[WebhookEvent]
    WEBHOOK_EVENT_COMPLETED: _ClassVar[WebhookEvent]
    WEBHOOK_EVENT_FAILED: _ClassVar[WebhookEvent]
    WEBHOOK_EVENT_CANCELLED: _ClassVar[WebhookEvent]
    WEBHOOK_EVENT_DISCARDED: _ClassVar[WebhookEvent]
TASK_STATUS_UNSPECIFIED: TaskStatus
TASK_STATUS_PENDING: TaskStatus
TASK_STATUS_RUNNING: TaskStatus
TASK_STATUS_RETRYING: TaskStatus
TASK_STATUS_COMPLETED: TaskStatus
TASK_STATUS_FAILED: TaskStatus
TASK_STATUS_CANCELLED: TaskStatus
TASK_STATUS_DISCARDED: TaskStatus
LEVEL_UNSPECIFIED: Level
LEVEL_CRITICAL: Level
LEVEL_HIGH: Level
LEVEL_NORMAL: Level
LEVEL_LOW: Level
LEVEL_BATCH: Level
BACKOFF_KIND_UNSPECIFIED: BackoffKind
BACKOFF_KIND_EXPONENTIAL: BackoffKind
BACKOFF_KIND_LINEAR: BackoffKind
BACKOFF_KIND_FIXED: BackoffKind
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_ERROR: FailureKind
FAILURE_KIND_TIMEOUT: FailureKind
FAILURE_KIND_CRASHED: FailureKind
FAILURE_KIND_LEASE_EXPIRED: FailureKind
FAILURE_KIND_INVALID_PAYLOAD: FailureKind
FAILURE_KIND_INVALID_RESULT: FailureKind
FAILURE_KIND_FINAL: FailureKind
CANCEL_STATE_UNSPECIFIED: CancelState
CANCEL_STATE_CANCELLED: CancelState
CANCEL_STATE_CANCELLING: CancelState
WEBHOOK_EVENT_UNSPECIFIED: WebhookEvent
WEBHOOK_EVENT_COMPLETED: WebhookEvent
WEBHOOK_EVENT_FAILED: WebhookEvent
WEBHOOK_EVENT_CANCELLED: WebhookEvent
WEBHOOK_EVENT_DISCARDED: WebhookEvent

class Backoff(_message.Message):
    __slots__ = ("kind", "base", "multiplier", "max")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    kind: BackoffKind
    base: float
    multiplier: float
    max: float
    def __init__(self, kind: _Optional[_Union[BackoffKind, str]] = ..., base: _Optional[float] = ..., multiplier: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...

class NewTask(_message.Message):
    __slots__ = ("task_type", "payload", "queue", "priority", "scheduled_at", "delay", "timeout", "max_retries", "retry_backoff", "key", "labels", "webhook", "group_key", "unique_key")
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    task_type: str
    payload: str
    queue: str
    priority: int
    scheduled_at: str
    delay: float
    timeout: float
    max_retries: int
    retry_backoff: Backoff
    key: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    webhook: Webhook
    group_key: str
    unique_key: str
    def __init__(self, task_type: _Optional[str] = ..., payload: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., scheduled_at: _Optional[str] = ..., delay: _Optional[float] = ..., timeout: _Optional[float] = ..., max_retries: _Optional[int] = ..., retry_backoff: _Optional[_Union[Backoff, _Mapping]] = ..., key: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., webhook: _Optional[_Union[Webhook, _Mapping]] = ..., group_key: _Optional[str] = ..., unique_key: _Optional[str] = ...) -> None: ...

class Webhook(_message.Message):
    __slots__ = ("url", "events", "sign")
    URL_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SIGN_FIELD_NUMBER: _ClassVar[int]
    url: str
    events: _containers.RepeatedScalarFieldContainer[WebhookEvent]
    sign: str
    def __init__(self, url: _Optional[str] = ..., events: _Optional[_Iterable[_Union[WebhookEvent, str]]] = ..., sign: _Optional[str] = ...) -> None: ...

class Submitted(_message.Message):
    __slots__ = ("task_id", "task_type", "queue", "priority", "status", "is_new", "key", "labels", "group_key", "unique_key")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    task_type: str
    queue: str
    priority: int
    status: TaskStatus
    is_new: bool
    key: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    group_key: str
    unique_key: str
    def __init__(self, task_id: _Optional[str] = ..., task_type: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., is_new: _Optional[bool] = ..., key: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., group_key: _Optional[str] = ..., unique_key: _Optional[str] = ...) -> None: ...

class SubmitBatchRequest(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[NewTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[NewTask, _Mapping]]] = ...) -> None: ...

class SubmitBatchResponse(_message.Message):
    __slots__ = ("results", "stored", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[BatchItem]
    stored: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[BatchItem, _Mapping]]] = ..., stored: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class BatchItem(_message.Message):
    __slots__ = ("status", "task_id", "code", "detail", "field")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    status: int
    task_id: str
    code: str
    detail: str
    field: str
    def __init__(self, status: _Optional[int] = ..., task_id: _Optional[str] = ..., code: _Optional[str] = ..., detail: _Optional[str] = ..., field: _Optional[str] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("task_id", "max_staleness")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_STALENESS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    max_staleness: float
    def __init__(self, task_id: _Optional[str] = ..., max_staleness: _Optional[float] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "kind", "error", "traceback", "worker_id", "started_at", "ended_at")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    kind: FailureKind
    error: str
    traceback: str
    worker_id: str
    started_at: str
    ended_at: str
    def __init__(self, attempt: _Optional[int] = ..., kind: _Optional[_Union[FailureKind, str]] = ..., error: _Optional[str] = ..., traceback: _Optional[str] = ..., worker_id: _Optional[str] = ..., started_at: _Optional[str] = ..., ended_at: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "task_type", "payload", "queue", "priority", "level", "status", "ready", "schedule_type", "scheduled_at", "timeout", "max_retries", "retry_backoff", "attempt_count", "created_at", "started_at", "completed_at", "worker_id", "lease_expires_at", "fencing_token", "cancel_requested", "last_error", "reason", "result", "progress", "key", "schedule", "nominal_at", "previous_nominal_at", "attempts", "labels", "placement", "group_key", "unique_key", "held")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    NOMINAL_AT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_NOMINAL_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    task_type: str
    payload: str
    queue: str
    priority: int
    level: Level
    status: TaskStatus
    ready: bool
    schedule_type: str
    scheduled_at: str
    timeout: float
    max_retries: int
    retry_backoff: BackoffKind
    attempt_count: int
    created_at: str
    started_at: str
    completed_at: str
    worker_id: str
    lease_expires_at: str
    fencing_token: int
    cancel_requested: bool
    last_error: str
    reason: str
    result: str
    progress: str
    key: str
    schedule: str
    nominal_at: str
    previous_nominal_at: str
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    labels: _containers.RepeatedScalarFieldContainer[str]
    placement: str
    group_key: str
    unique_key: str
    held: bool
    def __init__(self, task_id: _Optional[str] = ..., task_type: _Optional[str] = ..., payload: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., level: _Optional[_Union[Level, str]] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., ready: _Optional[bool] = ..., schedule_type: _Optional[str] = ..., scheduled_at: _Optional[str] = ..., timeout: _Optional[float] = ..., max_retries: _Optional[int] = ..., retry_backoff: _Optional[_Union[BackoffKind, str]] = ..., attempt_count: _Optional[int] = ..., created_at: _Optional[str] = ..., started_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., worker_id: _Optional[str] = ..., lease_expires_at: _Optional[str] = ..., fencing_token: _Optional[int] = ..., cancel_requested: _Optional[bool] = ..., last_error: _Optional[str] = ..., reason: _Optional[str] = ..., result: _Optional[str] = ..., progress: _Optional[str] = ..., key: _Optional[str] = ..., schedule: _Optional[str] = ..., nominal_at: _Optional[str] = ..., previous_nominal_at: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., labels: _Optional[_Iterable[str]] = ..., placement: _Optional[str] = ..., group_key: _Optional[str] = ..., unique_key: _Optional[str] = ..., held: _Optional[bool] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("status", "ready", "task_type", "queue", "schedule", "since", "until", "cursor", "limit", "group_key")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    status: TaskStatus
    ready: bool
    task_type: str
    queue: str
    schedule: str
    since: str
    until: str
    cursor: str
    limit: int
    group_key: str
    def __init__(self, status: _Optional[_Union[TaskStatus, str]] = ..., ready: _Optional[bool] = ..., task_type: _Optional[str] = ..., queue: _Optional[str] = ..., schedule: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., group_key: _Optional[str] = ...) -> None: ...

class TaskPage(_message.Message):
    __slots__ = ("tasks", "cursor", "partial")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    cursor: str
    partial: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., cursor: _Optional[str] = ..., partial: _Optional[bool] = ...) -> None: ...

class CancelTaskRequest(_message.Message):
    __slots__ = ("task_id", "reason")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    reason: str
    def __init__(self, task_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelTaskResponse(_message.Message):
    __slots__ = ("task_id", "status")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: CancelState
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[_Union[CancelState, str]] = ...) -> None: ...

class RescheduleTaskRequest(_message.Message):
    __slots__ = ("task_id", "scheduled_at")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    scheduled_at: str
    def __init__(self, task_id: _Optional[str] = ..., scheduled_at: _Optional[str] = ...) -> None: ...

class RunTaskNowRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class TaskState(_message.Message):
    __slots__ = ("task_id", "status")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: TaskStatus
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[_Union[TaskStatus, str]] = ...) -> None: ...

class WatchTaskRequest(_message.Message):
    __slots__ = ("task_id", "after")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    after: str
    def __init__(self, task_id: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class TaskEvent(_message.Message):
    __slots__ = ("id", "name", "task_id", "at", "data")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    task_id: str
    at: str
    data: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., task_id: _Optional[str] = ..., at: _Optional[str] = ..., data: _Optional[str] = ...) -> None: ...
