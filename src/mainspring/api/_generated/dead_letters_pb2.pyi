from mainspring.api._generated import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("task_type", "queue", "cursor", "limit")
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    task_type: str
    queue: str
    cursor: str
    limit: int
    def __init__(self, task_type: _Optional[str] = ..., queue: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetDeadLetterRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class ReplayRequest(_message.Message):
    __slots__ = ("ids", "task_type", "all", "payload")
    IDS_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    task_type: str
    all: bool
    payload: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., task_type: _Optional[str] = ..., all: _Optional[bool] = ..., payload: _Optional[str] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("ids", "task_type", "all", "reason")
    IDS_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    task_type: str
    all: bool
    reason: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., task_type: _Optional[str] = ..., all: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class TaskIds(_message.Message):
    __slots__ = ("task_ids", "count")
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    count: int
    def __init__(self, task_ids: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ...) -> None: ...
