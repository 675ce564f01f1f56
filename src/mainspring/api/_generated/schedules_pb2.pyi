from mainspring.api._generated import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScheduleStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULE_STATUS_UNSPECIFIED: _ClassVar[ScheduleStatus]
    SCHEDULE_STATUS_ACTIVE: _ClassVar[ScheduleStatus]
    SCHEDULE_STATUS_PAUSED: _ClassVar[ScheduleStatus]
    SCHEDULE_STATUS_COMPLETED: _ClassVar[ScheduleStatus]

class GapRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAP_RULE_UNSPECIFIED: _ClassVar[GapRule]
    GAP_RULE_RUN: _ClassVar[GapRule]
    GAP_RULE_SKIP: _ClassVar[GapRule]

class FoldRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FOLD_RULE_UNSPECIFIED: _ClassVar[FoldRule]
    FOLD_RULE_AUTO: _ClassVar[FoldRule]
    FOLD_RULE_ONCE: _ClassVar[FoldRule]
    FOLD_RULE_BOTH: _ClassVar[FoldRule]

class MisfireRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISFIRE_RULE_UNSPECIFIED: _ClassVar[MisfireRule]
    MISFIRE_RULE_RUN_ONCE: _ClassVar[MisfireRule]
    MISFIRE_RULE_SKIP: _ClassVar[MisfireRule]
    MISFIRE_RULE_RUN_ALL: _ClassVar[MisfireRule]

class OverlapRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_RULE_UNSPECIFIED: _ClassVar[OverlapRule]
    OVERLAP_RULE_SKIP: _ClassVar[OverlapRule]
    OVERLAP_RULE_BUFFER_ONE: _ClassVar[OverlapRule]
    OVERLAP_RULE_BUFFER_ALL: _ClassVar[OverlapRule]
    OVERLAP_RULE_CANCEL_PREVIOUS: _ClassVar[OverlapRule]
    OVERLAP_RULE_ALLOW: _ClassVar[OverlapRule]

class OnConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_CONFLICT_UNSPECIFIED: _ClassVar[OnConflict]
    ON_CONFLICT_ERROR: _ClassVar[OnConflict]
    ON_CONFLICT_KEEP: _ClassVar[OnConflict]
    ON_CONFLICT_REPLACE: _ClassVar[OnConflict]
SCHEDULE_STATUS_UNSPECIFIED: ScheduleStatus
SCHEDULE_STATUS_ACTIVE: ScheduleStatus
SCHEDULE_STATUS_PAUSED: ScheduleStatus
SCHEDULE_STATUS_COMPLETED: ScheduleStatus
GAP_RULE_UNSPECIFIED: GapRule
GAP_RULE_RUN: GapRule
GAP_RULE_SKIP: GapRule
FOLD_RULE_UNSPECIFIED: FoldRule
FOLD_RULE_AUTO: FoldRule
FOLD_RULE_ONCE: FoldRule
FOLD_RULE_BOTH: FoldRule
MISFIRE_RULE_UNSPECIFIED: MisfireRule
MISFIRE_RULE_RUN_ONCE: MisfireRule
MISFIRE_RULE_SKIP: MisfireRule
MISFIRE_RULE_RUN_ALL: MisfireRule
OVERLAP_RULE_UNSPECIFIED: OverlapRule
OVERLAP_RULE_SKIP: OverlapRule
OVERLAP_RULE_BUFFER_ONE: OverlapRule
OVERLAP_RULE_BUFFER_ALL: OverlapRule
OVERLAP_RULE_CANCEL_PREVIOUS: OverlapRule
OVERLAP_RULE_ALLOW: OverlapRule
ON_CONFLICT_UNSPECIFIED: OnConflict
ON_CONFLICT_ERROR: OnConflict
ON_CONFLICT_KEEP: OnConflict
ON_CONFLICT_REPLACE: OnConflict

class Exclusion(_message.Message):
    __slots__ = ("name", "dates", "patterns", "rule", "weekend")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    WEEKEND_FIELD_NUMBER: _ClassVar[int]
    name: str
    dates: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    rule: str
    weekend: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dates: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[str]] = ..., rule: _Optional[str] = ..., weekend: _Optional[_Iterable[int]] = ...) -> None: ...

class Timetable(_message.Message):
    __slots__ = ("cron", "every", "at", "timezone", "anchor", "gap", "fold", "start_at", "end_at", "exclusions", "jitter", "max_runs")
    CRON_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    END_AT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIONS_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    cron: _containers.RepeatedScalarFieldContainer[str]
    every: float
    at: str
    timezone: str
    anchor: str
    gap: GapRule
    fold: FoldRule
    start_at: str
    end_at: str
    exclusions: _containers.RepeatedCompositeFieldContainer[Exclusion]
    jitter: float
    max_runs: int
    def __init__(self, cron: _Optional[_Iterable[str]] = ..., every: _Optional[float] = ..., at: _Optional[str] = ..., timezone: _Optional[str] = ..., anchor: _Optional[str] = ..., gap: _Optional[_Union[GapRule, str]] = ..., fold: _Optional[_Union[FoldRule, str]] = ..., start_at: _Optional[str] = ..., end_at: _Optional[str] = ..., exclusions: _Optional[_Iterable[_Union[Exclusion, _Mapping]]] = ..., jitter: _Optional[float] = ..., max_runs: _Optional[int] = ...) -> None: ...

class SchedulePolicy(_message.Message):
    __slots__ = ("misfire", "misfire_window", "misfire_limit", "misfire_tolerance", "overlap", "overlap_limit", "start_deadline", "pause_after_failures")
    MISFIRE_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    START_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_AFTER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    misfire: MisfireRule
    misfire_window: float
    misfire_limit: int
    misfire_tolerance: float
    overlap: OverlapRule
    overlap_limit: int
    start_deadline: float
    pause_after_failures: int
    def __init__(self, misfire: _Optional[_Union[MisfireRule, str]] = ..., misfire_window: _Optional[float] = ..., misfire_limit: _Optional[int] = ..., misfire_tolerance: _Optional[float] = ..., overlap: _Optional[_Union[OverlapRule, str]] = ..., overlap_limit: _Optional[int] = ..., start_deadline: _Optional[float] = ..., pause_after_failures: _Optional[int] = ...) -> None: ...

class RunOptions(_message.Message):
    __slots__ = ("payload", "queue", "priority", "timeout", "max_retries", "retry_backoff", "labels", "group_key", "unique_key", "webhook")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    payload: str
    queue: str
    priority: int
    timeout: float
    max_retries: int
    retry_backoff: _tasks_pb2.Backoff
    labels: _containers.RepeatedScalarFieldContainer[str]
    group_key: str
    unique_key: str
    webhook: _tasks_pb2.Webhook
    def __init__(self, payload: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., timeout: _Optional[float] = ..., max_retries: _Optional[int] = ..., retry_backoff: _Optional[_Union[_tasks_pb2.Backoff, _Mapping]] = ..., labels: _Optional[_Iterable[str]] = ..., group_key: _Optional[str] = ..., unique_key: _Optional[str] = ..., webhook: _Optional[_Union[_tasks_pb2.Webhook, _Mapping]] = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("name", "task_type", "on_conflict", "timetable", "policy", "run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    TIMETABLE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_type: str
    on_conflict: OnConflict
    timetable: Timetable
    policy: SchedulePolicy
    run: RunOptions
    def __init__(self, name: _Optional[str] = ..., task_type: _Optional[str] = ..., on_conflict: _Optional[_Union[OnConflict, str]] = ..., timetable: _Optional[_Union[Timetable, _Mapping]] = ..., policy: _Optional[_Union[SchedulePolicy, _Mapping]] = ..., run: _Optional[_Union[RunOptions, _Mapping]] = ...) -> None: ...

class UpdateScheduleRequest(_message.Message):
    __slots__ = ("name", "task_type", "clear", "timetable", "policy", "run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    TIMETABLE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_type: str
    clear: _containers.RepeatedScalarFieldContainer[str]
    timetable: Timetable
    policy: SchedulePolicy
    run: RunOptions
    def __init__(self, name: _Optional[str] = ..., task_type: _Optional[str] = ..., clear: _Optional[_Iterable[str]] = ..., timetable: _Optional[_Union[Timetable, _Mapping]] = ..., policy: _Optional[_Union[SchedulePolicy, _Mapping]] = ..., run: _Optional[_Union[RunOptions, _Mapping]] = ...) -> None: ...

class GetScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "task_type", "payload", "kind", "cron_expression", "description", "timezone", "status", "note", "next_at", "last_at", "runs", "unfinished", "waiting", "missed", "late", "skipped", "consecutive_failures", "problem", "queue", "priority", "timeout", "max_retries", "retry_backoff", "spec", "version", "created_at", "updated_at", "labels", "group_key", "unique_key", "webhook")
    class SkippedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CRON_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    CONSECUTIVE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_type: str
    payload: str
    kind: str
    cron_expression: str
    description: str
    timezone: str
    status: ScheduleStatus
    note: str
    next_at: str
    last_at: str
    runs: int
    unfinished: int
    waiting: _containers.RepeatedScalarFieldContainer[str]
    missed: int
    late: int
    skipped: _containers.ScalarMap[str, int]
    consecutive_failures: int
    problem: str
    queue: str
    priority: int
    timeout: float
    max_retries: int
    retry_backoff: _tasks_pb2.BackoffKind
    spec: str
    version: int
    created_at: str
    updated_at: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    group_key: str
    unique_key: str
    webhook: _tasks_pb2.Webhook
    def __init__(self, name: _Optional[str] = ..., task_type: _Optional[str] = ..., payload: _Optional[str] = ..., kind: _Optional[str] = ..., cron_expression: _Optional[str] = ..., description: _Optional[str] = ..., timezone: _Optional[str] = ..., status: _Optional[_Union[ScheduleStatus, str]] = ..., note: _Optional[str] = ..., next_at: _Optional[str] = ..., last_at: _Optional[str] = ..., runs: _Optional[int] = ..., unfinished: _Optional[int] = ..., waiting: _Optional[_Iterable[str]] = ..., missed: _Optional[int] = ..., late: _Optional[int] = ..., skipped: _Optional[_Mapping[str, int]] = ..., consecutive_failures: _Optional[int] = ..., problem: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., timeout: _Optional[float] = ..., max_retries: _Optional[int] = ..., retry_backoff: _Optional[_Union[_tasks_pb2.BackoffKind, str]] = ..., spec: _Optional[str] = ..., version: _Optional[int] = ..., created_at: _Optional[str] = ..., updated_at: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., group_key: _Optional[str] = ..., unique_key: _Optional[str] = ..., webhook: _Optional[_Union[_tasks_pb2.Webhook, _Mapping]] = ...) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("name", "note")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    note: str
    def __init__(self, name: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class ResumeScheduleRequest(_message.Message):
    __slots__ = ("name", "note", "catch_up")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    name: str
    note: str
    catch_up: bool
    def __init__(self, name: _Optional[str] = ..., note: _Optional[str] = ..., catch_up: _Optional[bool] = ...) -> None: ...

class TriggerScheduleRequest(_message.Message):
    __slots__ = ("name", "overlap")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    name: str
    overlap: OverlapRule
    def __init__(self, name: _Optional[str] = ..., overlap: _Optional[_Union[OverlapRule, str]] = ...) -> None: ...

class TriggerScheduleResponse(_message.Message):
    __slots__ = ("task_id", "nominal_at", "reason")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NOMINAL_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    nominal_at: str
    reason: str
    def __init__(self, task_id: _Optional[str] = ..., nominal_at: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class BackfillScheduleRequest(_message.Message):
    __slots__ = ("name", "start", "end", "limit", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: str
    end: str
    limit: int
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., limit: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class BackfillScheduleResponse(_message.Message):
    __slots__ = ("nominal", "started", "truncated", "dry_run", "runs")
    NOMINAL_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    nominal: _containers.RepeatedScalarFieldContainer[str]
    started: _containers.RepeatedScalarFieldContainer[str]
    truncated: bool
    dry_run: bool
    runs: _containers.RepeatedCompositeFieldContainer[BackfillRun]
    def __init__(self, nominal: _Optional[_Iterable[str]] = ..., started: _Optional[_Iterable[str]] = ..., truncated: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., runs: _Optional[_Iterable[_Union[BackfillRun, _Mapping]]] = ...) -> None: ...

class BackfillRun(_message.Message):
    __slots__ = ("nominal", "previous")
    NOMINAL_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    nominal: str
    previous: str
    def __init__(self, nominal: _Optional[str] = ..., previous: _Optional[str] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PreviewScheduleRequest(_message.Message):
    __slots__ = ("timetable", "after", "count")
    TIMETABLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    timetable: Timetable
    after: str
    count: int
    def __init__(self, timetable: _Optional[_Union[Timetable, _Mapping]] = ..., after: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class PreviewTime(_message.Message):
    __slots__ = ("utc", "local")
    UTC_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    utc: str
    local: str
    def __init__(self, utc: _Optional[str] = ..., local: _Optional[str] = ...) -> None: ...

class SchedulePreview(_message.Message):
    __slots__ = ("expression", "normalized", "description", "timezone", "next", "warnings")
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    expression: str
    normalized: str
    description: str
    timezone: str
    next: _containers.RepeatedCompositeFieldContainer[PreviewTime]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, expression: _Optional[str] = ..., normalized: _Optional[str] = ..., description: _Optional[str] = ..., timezone: _Optional[str] = ..., next: _Optional[_Iterable[_Union[PreviewTime, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...
