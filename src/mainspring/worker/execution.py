"""One attempt, from the payload's text to the ending that the store is told.

The steps: read the payload against the signature, call the handler, classify how it ended, and
write and check its result. A step that fails ends the attempt with a reason; nothing that a
handler does or returns gets past this module as an exception.
"""

import traceback
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final

import msgspec

from mainspring.core.context import AttemptLink, TaskContext
from mainspring.core.definitions import Arguments, is_async, misfit, payload_reader
from mainspring.core.json_encoding import encode
from mainspring.core.registry import TaskDefinition
from mainspring.domain.errors import InvalidValue
from mainspring.domain.outcomes import Cancel, Complete, Fail, Outcome, Retry, Snooze
from mainspring.domain.retry import DELAY_MAX_SECONDS, classify
from mainspring.domain.task import (
    Cancelled,
    CommittedElsewhere,
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    Lease,
    Released,
    Retried,
)
from mainspring.domain.values import check_instant, check_seconds, clip_text, hide_secrets
from mainspring.ports.clock import Clock
from mainspring.worker.messages import StopReason

MESSAGE_BYTES_MAX: Final = 2000
_TEXT_MAX: Final = 100_000
_NO_RESULT: Final = Completed()

Ended = Ending | CommittedElsewhere


class Prepared:
    """A task definition, made ready for many attempts."""

    __slots__ = ("definition", "is_async", "read")

    def __init__(self, definition: TaskDefinition) -> None:
        self.definition = definition
        self.is_async = is_async(definition.handler)
        self.read: Callable[[str], Arguments] = payload_reader(definition)


class Execution:
    """One attempt of a task. Run it once, with `run` or `call` as the handler requires."""

    __slots__ = (
        "_began_at",
        "_clock",
        "_context",
        "_jitter",
        "_lease",
        "_prepared",
        "stopped_by",
    )

    def __init__(
        self,
        prepared: Prepared,
        lease: Lease,
        *,
        clock: Clock,
        jitter: float,
        link: AttemptLink,
        ends_at: float,
    ) -> None:
        self._prepared = prepared
        self._lease = lease
        self._clock = clock
        self._jitter = jitter
        self._began_at = ends_at - lease.timeout_seconds
        self._context = (
            TaskContext(lease, link, clock, ends_at) if prepared.definition.takes_context else None
        )
        self.stopped_by: StopReason | None = None
        """Set by whoever stops the attempt, before the handler is interrupted."""

    async def run(self, step: Callable[[Any], Awaitable[Any]]) -> Ended:
        """Run an `async def` handler; `step` awaits its coroutine."""
        if self.stopped_by is not None:
            return self.interrupted()
        try:
            arguments = self._prepared.read(self._lease.payload)
        except Exception as error:  # noqa: BLE001 - a payload may be anything
            return self._unreadable(error)
        try:
            value = await step(self._start(arguments))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - the handler's errors end its attempt alone
            return self._raised(error)
        return self._returned(value)

    def call(self) -> Ended:
        """Run a plain `def` handler in this thread."""
        if self.stopped_by is not None:
            return self.interrupted()
        try:
            arguments = self._prepared.read(self._lease.payload)
        except Exception as error:  # noqa: BLE001 - a payload may be anything
            return self._unreadable(error)
        try:
            value = self._start(arguments)
        except BaseException as error:  # noqa: BLE001 - the handler's errors end its attempt alone
            return self._raised(error)
        return self._returned(value)

    def _start(self, arguments: Arguments) -> Any:
        handler = self._prepared.definition.handler
        if self._context is None:
            return handler(**arguments)
        return handler(self._context, **arguments)

    def _returned(self, value: Any) -> Ended:
        if self._context is not None and self._context.has_completed:
            return CommittedElsewhere()
        if value is None:
            return _NO_RESULT
        if isinstance(value, Outcome):
            return self._chosen(value)
        return self._with_result(value)

    def _with_result(self, value: Any) -> Ended:
        if value is None:
            return _NO_RESULT
        try:
            return Completed(encode(value, "result"))
        except Exception as error:  # noqa: BLE001 - a result may be anything
            # The same handler would return the same again, after doing its work again.
            # Where it was found out says nothing about where the value comes from.
            is_ours = isinstance(error, InvalidValue)
            return Failed(failure(FailureKind.INVALID_RESULT, error, with_traceback=not is_ours))

    def _raised(self, error: BaseException) -> Ended:
        if isinstance(error, Outcome):
            return self._chosen(error)
        if self.stopped_by is not None:
            return self.interrupted(error)
        definition = self._prepared.definition
        try:
            verdict = classify(error, definition.final_errors)
        except Exception:  # noqa: BLE001 - the error's own attributes may raise
            return self._retried(failure(FailureKind.ERROR, error))
        if not verdict.again:
            return Failed(failure(FailureKind.FINAL, error))
        return self._retried(failure(FailureKind.ERROR, error), verdict.after_seconds)

    def _chosen(self, outcome: Outcome) -> Ended:
        """What the handler says itself, with whatever it put into it."""
        match outcome:
            case Complete():
                return self._with_result(outcome.result)
            case Retry() | Snooze():
                return self._postponed(outcome)
            case Cancel():
                return Cancelled(one_line(outcome.reason))
            case Fail():
                return Failed(_said(FailureKind.FINAL, outcome.reason, outcome))
            case _:
                return self._with_result(outcome)

    def _postponed(self, outcome: Retry | Snooze) -> Ended:
        try:
            if isinstance(outcome, Snooze):
                return Released(self._snooze_seconds(outcome))
            reason = _said(FailureKind.ERROR, outcome.reason, outcome)
            if outcome.after is None:
                return self._retried(reason)
            delay = check_seconds(outcome.after, "Retry.after", DELAY_MAX_SECONDS, zero=True)
            return Retried(reason, delay)
        except InvalidValue as error:
            return self._retried(failure(FailureKind.ERROR, error))

    def _snooze_seconds(self, outcome: Snooze) -> float:
        if outcome.until is not None:
            until = check_instant(outcome.until, "Snooze.until")
            return _seconds_until(until, self._store_time())
        return check_seconds(outcome.after, "Snooze.after", DELAY_MAX_SECONDS, zero=True)

    def _store_time(self) -> datetime:
        """Return the time by the store's clock, which decides what is due: that of the claim and
        what has passed since it arrived here. It may be behind but never ahead, however wrong the
        clock of this machine is, so no task that is snoozed until some time runs before it.
        """
        elapsed = self._clock.monotonic() - self._began_at
        return self._lease.started_at + timedelta(seconds=elapsed)

    def interrupted(self, error: BaseException | None = None) -> Ended:
        """Return the ending of an attempt that was stopped, by the reason it was stopped for."""
        match self.stopped_by:
            case StopReason.CANCEL:
                return Cancelled()
            case StopReason.TIMEOUT:
                return self._retried(timed_out(self._lease, error))
            case _:
                return Released()

    def _unreadable(self, error: Exception) -> Failed:
        if isinstance(error, msgspec.MsgspecError):
            text, path = misfit(error)
            task_type = self._lease.task_type
            error = InvalidValue(f"{path} does not fit task type {task_type!r}: {text}", field=path)
        return Failed(failure(FailureKind.INVALID_PAYLOAD, error, with_traceback=False))

    def _retried(self, why: Failure, at_least: float | None = None) -> Retried:
        delay = self._lease.backoff.delay(self._lease.attempt, self._jitter)
        return Retried(why, max(delay, at_least or 0.0))


def failure(kind: FailureKind, error: BaseException, *, with_traceback: bool = True) -> Failure:
    """Return an error as text that can be stored, whatever the error does when it is looked at."""
    said = _text(error)
    message = one_line(f"{type(error).__name__}: {said}" if said else type(error).__name__)
    return Failure(
        kind=kind, message=message, traceback=_traceback(error) if with_traceback else ""
    )


def timed_out(lease: Lease, error: BaseException | None = None) -> Failure:
    """Return the failure of an attempt that ran for longer than it may."""
    message = f"TimeoutError: ran for longer than its timeout of {lease.timeout_seconds:g} s"
    return Failure(
        kind=FailureKind.TIMEOUT,
        message=message,
        traceback="" if error is None else _traceback(error),
    )


def one_line(text: object, bytes_max: int = MESSAGE_BYTES_MAX) -> str:
    """Return text on one line and short enough to be stored."""
    return " ".join(clip_text(hide_secrets(_cut(_text(text))), bytes_max).split())


def _said(kind: FailureKind, reason: object, outcome: BaseException) -> Failure:
    message = one_line(reason) or type(outcome).__name__
    cause = outcome.__cause__
    return Failure(kind=kind, message=message, traceback="" if cause is None else _traceback(cause))


def _traceback(error: BaseException) -> str:
    try:
        frames = _without_ours(error.__traceback__)
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:  # noqa: BLE001 - formatting runs code of the error's classes
        return f"(the traceback of {type(error).__name__} cannot be shown)"
    return clip_text(hide_secrets(_cut("".join(lines))))


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """A user looks for the error in the handler, so the frames that called it are left out."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in _OUR_MODULES:
        frames = frames.tb_next
    return frames


_OUR_MODULES: Final = frozenset(
    {
        __name__,
        "mainspring.worker.steps",
        "mainspring.worker.http_tasks",
        "mainspring.worker.http_client",
    }
)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - any class may have any __str__
        return "(its text cannot be shown)"


def _cut(text: str) -> str:
    """Shorten without encoding all of it first."""
    if len(text) <= _TEXT_MAX:
        return text
    half = _TEXT_MAX // 2
    return text[:half] + text[-half:]


def _seconds_until(moment: datetime, now: datetime) -> float:
    return min(max(0.0, (moment - now).total_seconds()), DELAY_MAX_SECONDS)


async def directly(coroutine: Any) -> Any:
    """The plainest `step` for `Execution.run`."""
    return await coroutine
