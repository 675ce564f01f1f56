"""How long to wait before another attempt, and whether there should be one.

The delay before attempt n + 1 is ``min(base * multiplier ** (n - 1), max)`` for exponential,
``min(base * n, max)`` for linear and ``base`` for fixed back-off, plus up to a quarter of itself
at random, so that tasks that failed together do not return together.
"""

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

JITTER: Final = 0.25
"""The largest random part of a delay, as a fraction of it."""

DELAY_MAX_SECONDS: Final = 30 * 86400.0


class BackoffKind(StrEnum):
    """How the delay grows from one failure to the next."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class Backoff(msgspec.Struct, frozen=True):
    """The delay between attempts; all times in seconds."""

    kind: BackoffKind = BackoffKind.EXPONENTIAL
    base_seconds: float = 2.0
    multiplier: float = 2.0
    max_seconds: float = 300.0

    def delay(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after the given number of failures (1 or more).

        ``chance`` is a random number in [0, 1) that the caller draws. The result is bounded for
        any input: the power is not computed once it is certain to be over the maximum.
        """
        if self.kind is BackoffKind.FIXED:
            plain = self.base_seconds
        elif self.kind is BackoffKind.LINEAR:
            plain = min(self.base_seconds * failures, self.max_seconds)
        else:
            plain = self._exponential(failures)
        return plain * (1 + JITTER * chance)

    def _exponential(self, failures: int) -> float:
        delay = self.base_seconds
        for _ in range(failures - 1):
            delay *= self.multiplier
            if delay >= self.max_seconds:
                return self.max_seconds
            if self.multiplier <= 1:
                break
        return min(delay, self.max_seconds)


class Verdict(NamedTuple):
    """What an error means for the task: try again or not, and not before how many seconds."""

    again: bool
    after_seconds: float | None = None


_AGAIN: Final = Verdict(again=True)
_FINAL: Final = Verdict(again=False)

_RETRYABLE_CLIENT_STATUS: Final = frozenset({408, 409, 423, 425, 429})
_HTTP_ERROR: Final = range(400, 600)
_SERVER_ERROR: Final = 500
_DIGITS_MAX: Final = 9

_FINAL_NAMES: Final = frozenset({"ValidationError"})
"""Validation libraries name their error so; matched by name so that none has to be installed."""


def classify(error: BaseException, final: tuple[type[BaseException], ...] = ()) -> Verdict:
    """Say whether a failed attempt should be repeated.

    Final: what the task declared final, validation errors, and the HTTP client errors that will
    not go away by themselves (400, 401, 404 and their kind). Everything else is retried: time
    outs, connection errors, deadlocks, 429 and 503 (not before the time that the server named),
    and errors that are not known, because most of those are transient and retries are bounded.
    """
    if isinstance(error, final) or type(error).__name__ in _FINAL_NAMES:
        return _FINAL
    status = _http_status(error)
    if status is None or status >= _SERVER_ERROR or status in _RETRYABLE_CLIENT_STATUS:
        return _AGAIN if status is None else Verdict(again=True, after_seconds=_retry_after(error))
    return _FINAL


def _http_status(error: BaseException) -> int | None:
    """Find the HTTP status in the errors of the common client libraries, without importing any."""
    response = getattr(error, "response", None)
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value in _HTTP_ERROR:
                return value
    return None


def _retry_after(error: BaseException) -> float | None:
    """Return the delay in seconds that the server asked for, if it gave a number of seconds."""
    for holder in (error, getattr(error, "response", None)):
        look_up = getattr(getattr(holder, "headers", None), "get", None)
        if not callable(look_up):
            continue
        value = look_up("Retry-After") or look_up("retry-after")
        if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS_MAX:
            return min(float(value), DELAY_MAX_SECONDS)
    return None
