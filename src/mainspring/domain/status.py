"""The states of a task, and the one table of how it may move between them.

No other place in the code decides a change of state: the memory store asks this table, and every
SQL statement that writes a status names its transition in a comment that a test holds against it.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class TaskStatus(StrEnum):
    """What the store knows of a task. *Ready* (waiting and due) is derived, never stored."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"


WAITING: Final = frozenset({TaskStatus.PENDING, TaskStatus.RETRYING})
LIVE: Final = WAITING | {TaskStatus.RUNNING}
TERMINAL: Final = frozenset(TaskStatus) - LIVE
"""Final states. `failed` is in the dead letters and alone can be reopened, by a replay."""


class Transition(StrEnum):
    """Everything that can happen to a task."""

    SUBMIT = "submit"
    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    FAIL = "fail"
    CANCEL_WAITING = "cancel_waiting"
    CANCEL_RUNNING = "cancel_running"
    RESCHEDULE = "reschedule"
    RESCUE = "rescue"
    RESCUE_EXHAUSTED = "rescue_exhausted"
    RESCUE_CANCELLED = "rescue_cancelled"
    REPLAY = "replay"
    DISCARD = "discard"


class Rule(NamedTuple):
    """From which states a transition may start, and where it leads (None: the state stays)."""

    sources: frozenset[TaskStatus]
    target: TaskStatus | None


_RUNNING: Final = frozenset({TaskStatus.RUNNING})
_FAILED: Final = frozenset({TaskStatus.FAILED})

TRANSITIONS: Final[dict[Transition, Rule]] = {
    Transition.SUBMIT: Rule(frozenset(), TaskStatus.PENDING),
    Transition.CLAIM: Rule(WAITING, TaskStatus.RUNNING),
    Transition.COMPLETE: Rule(_RUNNING, TaskStatus.COMPLETED),
    Transition.RETRY: Rule(_RUNNING, TaskStatus.RETRYING),
    Transition.SNOOZE: Rule(_RUNNING, TaskStatus.PENDING),
    Transition.RELEASE: Rule(_RUNNING, TaskStatus.PENDING),
    Transition.FAIL: Rule(_RUNNING, TaskStatus.FAILED),
    Transition.CANCEL_WAITING: Rule(WAITING, TaskStatus.CANCELLED),
    Transition.CANCEL_RUNNING: Rule(_RUNNING, TaskStatus.CANCELLED),
    Transition.RESCHEDULE: Rule(WAITING, None),
    Transition.RESCUE: Rule(_RUNNING, TaskStatus.PENDING),
    Transition.RESCUE_EXHAUSTED: Rule(_RUNNING, TaskStatus.FAILED),
    Transition.RESCUE_CANCELLED: Rule(_RUNNING, TaskStatus.CANCELLED),
    Transition.REPLAY: Rule(_FAILED, TaskStatus.PENDING),
    Transition.DISCARD: Rule(_FAILED, TaskStatus.DISCARDED),
}


def allows(transition: Transition, status: TaskStatus) -> bool:
    """Say whether a task in this state may take this transition."""
    return status in TRANSITIONS[transition].sources


def apply(transition: Transition, status: TaskStatus) -> TaskStatus:
    """Return the state after the transition.

    Raises `ValueError` for a step the table does not allow: callers check with `allows` first, and
    a refused step is a normal answer of the store, so reaching this error is a fault in our code.
    """
    if not allows(transition, status):
        message = f"a task that is {status} cannot {transition}"
        raise ValueError(message)
    return TRANSITIONS[transition].target or status
