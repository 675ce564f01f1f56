"""What a handler may say about how its attempt ended.

A handler returns a plain value (the result), or one of these, or raises one of these; both ways
mean the same. Any other exception is a failure, retried or not by `retry.classify`.
"""

from datetime import datetime
from typing import Any


class Outcome:
    """Root of the values that end an attempt."""


class Complete(Outcome):
    """Done, with a result that is stored with the task."""

    def __init__(self, result: Any = None) -> None:
        self.result = result


class Signal(Outcome, Exception):
    """An outcome that may be raised as well as returned."""


class Retry(Signal):
    """Failed, try again: after the task's own back-off, or after so many seconds.

    Counts as an attempt; when none is left the task goes to the dead letters.
    """

    def __init__(
        self, reason: str = "the handler asked for a retry", *, after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class Snooze(Signal):
    """Not now: run again after so many seconds, or at a time. Does not count as an attempt."""

    def __init__(self, after: float | None = None, *, until: datetime | None = None) -> None:
        super().__init__(f"snoozed: after={after} until={until}")
        self.after = after
        self.until = until


class Cancel(Signal):
    """Not needed any more: end as cancelled, with a reason."""

    def __init__(self, reason: str = "the handler cancelled it") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(Signal):
    """Failed for good: straight to the dead letters, however many attempts are left."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason
