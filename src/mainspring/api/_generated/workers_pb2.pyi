from mainspring.api._generated import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Lease(_message.Message):
    __slots__ = ("task_id", "fencing_token", "task_type", "payload", "queue", "priority", "level", "attempt", "max_retries", "timeout", "scheduled_at", "created_at", "lease_seconds")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    task_type: str
    payload: str
    queue: str
    priority: int
    level: _tasks_pb2.Level
    attempt: int
    max_retries: int
    timeout: float
    scheduled_at: str
    created_at: str
    lease_seconds: float
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., task_type: _Optional[str] = ..., payload: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., level: _Optional[_Union[_tasks_pb2.Level, str]] = ..., attempt: _Optional[int] = ..., max_retries: _Optional[int] = ..., timeout: _Optional[float] = ..., scheduled_at: _Optional[str] = ..., created_at: _Optional[str] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class LeaseRef(_message.Message):
    __slots__ = ("task_id", "fencing_token")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class Renewal(_message.Message):
    __slots__ = ("task_id", "fencing_token", "held", "cancel_requested")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    held: bool
    cancel_requested: bool
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., held: _Optional[bool] = ..., cancel_requested: _Optional[bool] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("worker_id", "task_types", "queues", "levels", "labels", "limit", "lease_seconds", "wait_seconds")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    task_types: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    levels: _containers.RepeatedScalarFieldContainer[_tasks_pb2.Level]
    labels: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    lease_seconds: float
    wait_seconds: float
    def __init__(self, worker_id: _Optional[str] = ..., task_types: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., levels: _Optional[_Iterable[_Union[_tasks_pb2.Level, str]]] = ..., labels: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., lease_seconds: _Optional[float] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("worker_id", "leases", "lease_seconds")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    lease_seconds: float
    def __init__(self, worker_id: _Optional[str] = ..., leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Renewal]
    def __init__(self, leases: _Optional[_Iterable[_Union[Renewal, _Mapping]]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("worker_id", "task_id", "fencing_token", "result")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    task_id: str
    fencing_token: int
    result: str
    def __init__(self, worker_id: _Optional[str] = ..., task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., result: _Optional[str] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("worker_id", "task_id", "fencing_token", "error", "kind", "traceback", "retry", "retry_after", "cancelled", "release")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    task_id: str
    fencing_token: int
    error: str
    kind: _tasks_pb2.FailureKind
    traceback: str
    retry: bool
    retry_after: float
    cancelled: bool
    release: bool
    def __init__(self, worker_id: _Optional[str] = ..., task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., error: _Optional[str] = ..., kind: _Optional[_Union[_tasks_pb2.FailureKind, str]] = ..., traceback: _Optional[str] = ..., retry: _Optional[bool] = ..., retry_after: _Optional[float] = ..., cancelled: _Optional[bool] = ..., release: _Optional[bool] = ...) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ("hello", "slots", "heartbeat", "complete", "fail", "release", "progress", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    slots: Slots
    heartbeat: Beat
    complete: Complete
    fail: Fail
    release: Release
    progress: Progress
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., slots: _Optional[_Union[Slots, _Mapping]] = ..., heartbeat: _Optional[_Union[Beat, _Mapping]] = ..., complete: _Optional[_Union[Complete, _Mapping]] = ..., fail: _Optional[_Union[Fail, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("worker_id", "task_types", "queues", "levels", "labels", "slots", "lease_seconds")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    task_types: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    levels: _containers.RepeatedScalarFieldContainer[_tasks_pb2.Level]
    labels: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    lease_seconds: float
    def __init__(self, worker_id: _Optional[str] = ..., task_types: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., levels: _Optional[_Iterable[_Union[_tasks_pb2.Level, str]]] = ..., labels: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class Slots(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: int
    def __init__(self, slots: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ...) -> None: ...

class Complete(_message.Message):
    __slots__ = ("task_id", "fencing_token", "result")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    result: str
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., result: _Optional[str] = ...) -> None: ...

class Fail(_message.Message):
    __slots__ = ("task_id", "fencing_token", "error", "kind", "traceback", "retry", "retry_after", "cancelled")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    error: str
    kind: _tasks_pb2.FailureKind
    traceback: str
    retry: bool
    retry_after: float
    cancelled: bool
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., error: _Optional[str] = ..., kind: _Optional[_Union[_tasks_pb2.FailureKind, str]] = ..., traceback: _Optional[str] = ..., retry: _Optional[bool] = ..., retry_after: _Optional[float] = ..., cancelled: _Optional[bool] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("task_id", "fencing_token", "retry_after")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    retry_after: float
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., retry_after: _Optional[float] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("task_id", "fencing_token", "progress")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    progress: str
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., progress: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("welcome", "lease", "ended", "renewed", "stop", "refused", "closing")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CLOSING_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    lease: Lease
    ended: Ended
    renewed: Renewed
    stop: Stop
    refused: Refused
    closing: Closing
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., closing: _Optional[_Union[Closing, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("lease_seconds", "heartbeat_seconds")
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    lease_seconds: float
    heartbeat_seconds: float
    def __init__(self, lease_seconds: _Optional[float] = ..., heartbeat_seconds: _Optional[float] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("task_id", "fencing_token", "accepted", "status")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    accepted: bool
    status: _tasks_pb2.TaskStatus
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., accepted: _Optional[bool] = ..., status: _Optional[_Union[_tasks_pb2.TaskStatus, str]] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Renewal]
    def __init__(self, leases: _Optional[_Iterable[_Union[Renewal, _Mapping]]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("task_id", "fencing_token", "lost")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fencing_token: int
    lost: bool
    def __init__(self, task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ..., lost: _Optional[bool] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("code", "message", "field", "task_id", "fencing_token")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    field: str
    task_id: str
    fencing_token: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., task_id: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class Closing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
