"""What happens to attempts that do not stop when they are told to.

A handler gets a grace after it was told; then it costs its process. In a process that it shares
the others go back uncharged. A runner that does not even answer is blocked by one of its handlers,
and that one alone is judged: the number in shared memory tells which it is.
"""

from collections.abc import Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from mainspring.core.registry import Mode
from mainspring.worker.held import Held
from mainspring.worker.messages import StopReason
from mainspring.worker.processes import RunnerProcess
from mainspring.worker.steps import NOBODY

ANSWER_SECONDS: Final = 1.0
"""A runner that is this late in telling that an attempt's time is over is not responsive."""

SOLO_GRACE_SECONDS: Final = 0.5
"""A handler alone in its process can be ended at once when its task was cancelled or lost."""


class Enforcer:
    """Ends runner processes for handlers that stay."""

    def __init__(self, grace_seconds: float, log: FilteringBoundLogger) -> None:
        self._grace_seconds = grace_seconds
        self._log = log

    def enforce(self, runners: Iterable[RunnerProcess], now: float) -> None:
        """Look at every running attempt once."""
        for runner in runners:
            if runner.was_killed or not runner.held:
                continue
            guilty = next(
                (held for held in runner.held.values() if self._has_to_go(held, now)), None
            )
            if guilty is None:
                guilty = self._blocking(runner, now)
            if guilty is None:
                continue
            self._log.warning(
                "a handler did not stop and costs its process",
                task_id=str(guilty.lease.id),
                task_type=guilty.lease.task_type,
                reason=guilty.stopped_by.name.lower() if guilty.stopped_by else "",
                pid=runner.pid,
                neighbours=len(runner.held) - 1,
            )
            if runner.is_solo:
                runner.terminate()
            else:
                runner.kill()

    def _has_to_go(self, held: Held, now: float) -> bool:
        """Whether it was told to stop, by a runner that answers, and its grace is over."""
        if held.overdue_at is not None:
            return now > held.overdue_at + self._grace_seconds
        if held.stopped_by is None:
            return False
        if held.mode is Mode.PROCESS:
            return now > held.stopped_at + SOLO_GRACE_SECONDS
        # A cancelled handler may take its time, up to its timeout; one without a lease may not.
        return held.stopped_by is StopReason.LOST and now > held.stopped_at + self._grace_seconds

    def _blocking(self, runner: RunnerProcess, now: float) -> Held | None:
        """Return the attempt to blame for a runner that lets time limits pass without a word."""
        late = [held for held in runner.held.values() if self._is_late(held, now)]
        if not late:
            return None
        current = runner.current()
        if current != NOBODY and current in runner.held:
            blamed = [held for held in late if held.number == current]
        else:
            # Not the event loop's step but a thread keeps the interpreter, if there is one.
            in_threads = [held for held in runner.held.values() if held.mode is Mode.THREAD]
            blamed = [held for held in late if held.mode is Mode.THREAD] if in_threads else late
        if not blamed:
            return None
        blamed[0].stopped_by = blamed[0].stopped_by or StopReason.TIMEOUT
        return blamed[0]

    def _is_late(self, held: Held, now: float) -> bool:
        if held.overdue_at is not None or held.dispatched_at is None:
            return False
        limit = held.dispatched_at + held.lease.timeout_seconds
        return now > limit + self._grace_seconds + ANSWER_SECONDS
