"""The one tree of errors that users of Mainspring meet.

::

    MainspringError
    ├── InvalidValue             what was given cannot be accepted; names the field
    │   ├── InvalidCron
    │   ├── InvalidTimezone
    │   ├── PayloadTooLarge
    │   ├── TargetRefused
    │   └── UnknownTaskType
    ├── NotFound
    │   ├── TaskNotFound
    │   ├── QueueNotFound
    │   └── ScheduleNotFound
    ├── Conflict                 valid, but not in the state the task is in now
    │   ├── StaleLease
    │   ├── TaskNotWaiting
    │   ├── TaskAlreadyFinished
    │   ├── NotADeadLetter
    │   ├── UniqueKeyTaken
    │   ├── KeyConflict
    │   ├── ScheduleExists
    │   └── RunSkipped
    ├── AccessDenied             who asks may not do this
    │   ├── Unauthenticated
    │   └── Forbidden
    ├── Unavailable              try again later; nothing is wrong with the request
    │   ├── StoreUnavailable
    │   │   ├── StoreBusy
    │   │   └── PartitionMoving
    │   ├── StoreHeldUp
    │   ├── StoreReadOnly
    │   ├── StoreFull
    │   ├── OutcomeUnknown
    │   ├── WaitTimedOut
    │   ├── QuotaExceeded
    │   └── Overloaded
    ├── Refused                  a remote server refused, for a reason this version does not know
    └── SetupError               the installation has to be changed before it can work
        ├── InvalidConfiguration
        ├── AppNotFound
        ├── MigrationNeeded
        ├── MigrationDrift
        ├── UnsupportedServer
        ├── AddressInUse
        ├── EmbeddedServerError
        ├── DataDirectoryInUse
        └── DataDirectoryVersionMismatch

Every class has a stable ``code`` that programs may match on. The message is a sentence for a
person: what was wrong, with which field and value, and what to do about it.
"""

from typing import ClassVar


class MainspringError(Exception):
    """Root of every error that Mainspring raises on purpose."""

    code: ClassVar[str] = "mainspring_error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.field))


def _rebuild(kind: type[MainspringError], message: str, field: str | None) -> MainspringError:
    return kind(message, field=field)


class InvalidValue(MainspringError, ValueError):
    """A value that cannot be accepted; ``field`` names it and the message says what would be."""

    code = "invalid_value"


class InvalidCron(InvalidValue):
    """A cron expression is outside the grammar, or can never fire."""

    code = "invalid_cron"


class InvalidTimezone(InvalidValue):
    """The name of a time zone is not one of the IANA names that are installed."""

    code = "invalid_timezone"


class PayloadTooLarge(InvalidValue):
    """A payload, result or batch is over its size limit."""

    code = "payload_too_large"


class TargetRefused(InvalidValue):
    """A request may not go to this URL: it leads into the operator's own network, or is none."""

    code = "target_refused"


class UnknownTaskType(InvalidValue):
    """No handler of this name is registered where one is needed."""

    code = "unknown_task_type"


class NotFound(MainspringError, LookupError):
    """There is nothing of this name or id."""

    code = "not_found"


class TaskNotFound(NotFound):
    """No task has this id."""

    code = "task_not_found"


class QueueNotFound(NotFound):
    """No task was ever submitted to a queue of this name."""

    code = "queue_not_found"


class ScheduleNotFound(NotFound):
    """No schedule has this name."""

    code = "schedule_not_found"


class Conflict(MainspringError):
    """The request is valid but does not fit the state the task is in now."""

    code = "conflict"


class StaleLease(Conflict):
    """The caller no longer owns the task: its lease ended and the fencing token has moved on."""

    code = "stale_lease"


class TaskNotWaiting(Conflict):
    """The task is not waiting any more, so its time cannot be changed."""

    code = "task_not_waiting"


class TaskAlreadyFinished(Conflict):
    """The task has reached a terminal state."""

    code = "task_already_finished"


class NotADeadLetter(Conflict):
    """The task is not in the dead letter queue, so it cannot be replayed or discarded."""

    code = "not_a_dead_letter"


class UniqueKeyTaken(Conflict):
    """A task with the unique key is live, so the dead letter that has it too cannot be replayed."""

    code = "unique_key_taken"


class KeyConflict(Conflict):
    """The idempotency key was used before for a different task."""

    code = "idempotency_key_conflict"


class ScheduleExists(Conflict):
    """There is another schedule of this name, and it was not to be replaced."""

    code = "schedule_exists"


class RunSkipped(Conflict):
    """A run that was asked for is not made, because the overlap policy does not allow it now."""

    code = "run_skipped"


class AccessDenied(MainspringError):
    """Who asks may not do this."""

    code = "access_denied"


class Unauthenticated(AccessDenied):
    """Nobody knows who asks: no key, or one that is wrong, expired or revoked."""

    code = "unauthenticated"


class Forbidden(AccessDenied):
    """It is known who asks, and they may not do this."""

    code = "forbidden"


class Unavailable(MainspringError):
    """The request may be repeated later; nothing is wrong with it."""

    code = "unavailable"


class StoreUnavailable(Unavailable):
    """The task store cannot be reached, or did not answer in time."""

    code = "store_unavailable"


class StoreBusy(StoreUnavailable):
    """The task store answered that it cannot do this now, and nothing was done: somebody holds a
    lock, or it would take too long. To callers it is the same as `StoreUnavailable`, so the code
    is.
    """


class PartitionMoving(StoreUnavailable):
    """The partition is just moving to another shard of the store, and nothing was done. To callers
    it is the same as `StoreUnavailable`, so the code is.
    """


class StoreHeldUp(Unavailable):
    """Somebody's open transaction holds what is asked for, and nothing was done. The store is well,
    so nobody else has to wait.
    """


class StoreReadOnly(Unavailable):
    """The task store accepts no writes: a standby, or a server in read-only mode."""

    code = "store_read_only"


class StoreFull(Unavailable):
    """The task store has no room left on its disk."""

    code = "store_full"


class OutcomeUnknown(Unavailable):
    """The connection broke after the request was sent: it may or may not have taken effect."""

    code = "outcome_unknown"


class WaitTimedOut(Unavailable, TimeoutError):
    """The task did not reach a terminal state within the time the caller was willing to wait."""

    code = "wait_timed_out"


class QuotaExceeded(Unavailable):
    """The caller has used up what it is allowed for now; ``retry_after`` says when to come back."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, field: str | None = None, retry_after: float = 1.0) -> None:
        super().__init__(message, field=field)
        self.retry_after = retry_after


class Overloaded(QuotaExceeded):
    """There is more work than the installation can do; less urgent tasks are turned away first."""

    code = "overloaded"


class Refused(MainspringError):
    """A remote server refused, for a reason that this version does not know."""

    code = "refused"


class SetupError(MainspringError):
    """The installation has to be changed before it can work."""

    code = "setup_error"


class InvalidConfiguration(SetupError):
    """One or more settings are wrong; the message lists all of them."""

    code = "invalid_configuration"


class AppNotFound(SetupError):
    """``--app MODULE:APP`` names nothing that can be imported and is a Mainspring app."""

    code = "app_not_found"


class MigrationNeeded(SetupError):
    """The database has an older schema than this version needs, or none."""

    code = "migration_needed"


class MigrationDrift(SetupError):
    """The database's record of migrations does not match the migrations of this version."""

    code = "migration_drift"


class UnsupportedServer(SetupError):
    """The database server is of a version, or has a setting, that Mainspring cannot work with."""

    code = "unsupported_server"


class AddressInUse(SetupError):
    """Another process already listens on the address asked for."""

    code = "address_in_use"


class EmbeddedServerError(SetupError):
    """The PostgreSQL server that Mainspring runs itself could not be started or died."""

    code = "embedded_server_failed"


class DataDirectoryInUse(EmbeddedServerError):
    """Another live server uses this data directory."""

    code = "data_directory_in_use"


class DataDirectoryVersionMismatch(EmbeddedServerError):
    """The data directory was made by another major version of PostgreSQL."""

    code = "data_directory_version"
