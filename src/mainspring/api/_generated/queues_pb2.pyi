from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListQueuesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "partial")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueState]
    partial: bool
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueState, _Mapping]]] = ..., partial: _Optional[bool] = ...) -> None: ...

class QueueState(_message.Message):
    __slots__ = ("queue", "paused", "ready", "scheduled", "running", "oldest_ready_seconds", "held", "limit", "group_limit", "branches")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    GROUP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    paused: bool
    ready: int
    scheduled: int
    running: int
    oldest_ready_seconds: float
    held: int
    limit: Limit
    group_limit: Limit
    branches: _containers.RepeatedCompositeFieldContainer[BranchState]
    def __init__(self, queue: _Optional[str] = ..., paused: _Optional[bool] = ..., ready: _Optional[int] = ..., scheduled: _Optional[int] = ..., running: _Optional[int] = ..., oldest_ready_seconds: _Optional[float] = ..., held: _Optional[int] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., group_limit: _Optional[_Union[Limit, _Mapping]] = ..., branches: _Optional[_Iterable[_Union[BranchState, _Mapping]]] = ...) -> None: ...

class BranchState(_message.Message):
    __slots__ = ("labels", "ready", "scheduled", "running", "oldest_ready_seconds", "workers", "unplaceable")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    UNPLACEABLE_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    ready: int
    scheduled: int
    running: int
    oldest_ready_seconds: float
    workers: int
    unplaceable: int
    def __init__(self, labels: _Optional[_Iterable[str]] = ..., ready: _Optional[int] = ..., scheduled: _Optional[int] = ..., running: _Optional[int] = ..., oldest_ready_seconds: _Optional[float] = ..., workers: _Optional[int] = ..., unplaceable: _Optional[int] = ...) -> None: ...

class PauseQueueRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeQueueRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class QueueSwitch(_message.Message):
    __slots__ = ("queue", "paused")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    paused: bool
    def __init__(self, queue: _Optional[str] = ..., paused: _Optional[bool] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("concurrency", "rate", "burst")
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    concurrency: int
    rate: float
    burst: int
    def __init__(self, concurrency: _Optional[int] = ..., rate: _Optional[float] = ..., burst: _Optional[int] = ...) -> None: ...

class GetQueueLimitsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SetQueueLimitsRequest(_message.Message):
    __slots__ = ("name", "queue", "group")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue: Limit
    group: Limit
    def __init__(self, name: _Optional[str] = ..., queue: _Optional[_Union[Limit, _Mapping]] = ..., group: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...

class QueueLimits(_message.Message):
    __slots__ = ("queue", "group", "groups")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    queue: Limit
    group: Limit
    groups: _containers.RepeatedCompositeFieldContainer[GroupLimit]
    def __init__(self, queue: _Optional[_Union[Limit, _Mapping]] = ..., group: _Optional[_Union[Limit, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[GroupLimit, _Mapping]]] = ...) -> None: ...

class SetGroupLimitRequest(_message.Message):
    __slots__ = ("name", "group_key", "concurrency", "rate", "burst")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    name: str
    group_key: str
    concurrency: int
    rate: float
    burst: int
    def __init__(self, name: _Optional[str] = ..., group_key: _Optional[str] = ..., concurrency: _Optional[int] = ..., rate: _Optional[float] = ..., burst: _Optional[int] = ...) -> None: ...

class GroupLimit(_message.Message):
    __slots__ = ("group_key", "limit")
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    group_key: str
    limit: Limit
    def __init__(self, group_key: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...

class DropGroupLimitRequest(_message.Message):
    __slots__ = ("name", "group_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    group_key: str
    def __init__(self, name: _Optional[str] = ..., group_key: _Optional[str] = ...) -> None: ...

class DropGroupLimitResponse(_message.Message):
    __slots__ = ("group_key",)
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    group_key: str
    def __init__(self, group_key: _Optional[str] = ...) -> None: ...
