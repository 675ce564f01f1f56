"""Mainspring: a distributed task scheduler that never loses a task and starts it on time.

    from mainspring import Mainspring, TaskContext

    app = Mainspring()

    @app.task("send_email", timeout=30)
    async def send_email(ctx: TaskContext, user_id: int, email: str) -> dict: ...

    task = await send_email.submit(user_id=123, email="user@example.com")

The names below are the public interface; everything else may change without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.app import Mainspring
    from mainspring.app_tasks import TaskHandle, TaskState, TaskType
    from mainspring.client import Client
    from mainspring.config import Settings
    from mainspring.core.context import TaskContext
    from mainspring.domain.errors import (
        Conflict,
        InvalidValue,
        KeyConflict,
        MainspringError,
        NotFound,
        OutcomeUnknown,
        StaleLease,
        StoreUnavailable,
        Unavailable,
        WaitTimedOut,
    )
    from mainspring.domain.outcomes import Cancel, Complete, Fail, Retry, Snooze
    from mainspring.domain.retry import Backoff
    from mainspring.domain.status import TaskStatus
    from mainspring.ports.locks import LockHeld, LockLost
    from mainspring.wiring.receiving import verify_signature

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "Cancel",
    "Client",
    "Complete",
    "Conflict",
    "Fail",
    "InvalidValue",
    "KeyConflict",
    "LockHeld",
    "LockLost",
    "Mainspring",
    "MainspringError",
    "NotFound",
    "OutcomeUnknown",
    "Retry",
    "Settings",
    "Snooze",
    "StaleLease",
    "StoreUnavailable",
    "TaskContext",
    "TaskHandle",
    "TaskState",
    "TaskStatus",
    "TaskType",
    "Unavailable",
    "WaitTimedOut",
    "__version__",
    "verify_signature",
]

# Importing the package costs nothing, so that every command of the command line starts quickly:
# a name is loaded when it is first used.
_HOMES = {
    "mainspring.app": ("Mainspring",),
    "mainspring.app_tasks": ("TaskHandle", "TaskState", "TaskType"),
    "mainspring.client": ("Client",),
    "mainspring.config": ("Settings",),
    "mainspring.core.context": ("TaskContext",),
    "mainspring.domain.errors": (
        "Conflict",
        "InvalidValue",
        "KeyConflict",
        "MainspringError",
        "NotFound",
        "OutcomeUnknown",
        "StaleLease",
        "StoreUnavailable",
        "Unavailable",
        "WaitTimedOut",
    ),
    "mainspring.domain.outcomes": ("Cancel", "Complete", "Fail", "Retry", "Snooze"),
    "mainspring.domain.retry": ("Backoff",),
    "mainspring.domain.status": ("TaskStatus",),
    "mainspring.ports.locks": ("LockHeld", "LockLost"),
    "mainspring.wiring.receiving": ("verify_signature",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
