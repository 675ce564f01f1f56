"""Limits: how many tasks of a queue, or of a group of it, may run at once and start in a second.

Tasks of a queue that were submitted with the same group key are a group of it: those of a customer,
say. A limit of the queue holds for all its tasks together, one of a group for those of the group.
Groups share the starts of a queue evenly, whether or not there is a limit.

A rate is a token bucket: in any span of T seconds no more than ``burst + rate * T`` tasks start.
"""

import math
import re
from collections.abc import Sequence
from typing import Final, TypedDict

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import check_key, shown

CONCURRENCY_MAX: Final = 100_000
RATE_MAX: Final = 1_000_000.0
"""Starts a second."""

RATE_MIN: Final = 1e-13
"""Below any rate that means something, and above those with which nothing can be reckoned."""

BURST_MAX: Final = 1_000_000
GROUP_LIMITS_MAX: Final = 10_000
"""Groups of one queue that may have limits of their own."""

_SPANS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smhd])", re.ASCII)
_RATE_SHAPE: Final = "a rate is a number of starts and a span of time: 100/s, 30/m, 500/h or 1000/d"
_SHOWN_DIGITS: Final = 3


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks may do together; None is without limit."""

    concurrency: int | None = None
    """How many may run at once, 1 to `CONCURRENCY_MAX`. A running task is one that is leased,
    until its lease is settled or rescued."""

    rate: float | None = None
    """How many may start in a second, `RATE_MIN` to `RATE_MAX`; every attempt is a start."""

    burst: int | None = None
    """How many may start at once after a pause, 1 to `BURST_MAX`. None: what the rate allows in one
    second, at least 1. Only together with a rate."""

    def __post_init__(self) -> None:
        """Raise `InvalidValue` for values out of their bounds."""
        if self.concurrency is not None and not 1 <= self.concurrency <= CONCURRENCY_MAX:
            message = (
                f"concurrency is {shown(self.concurrency)}; it must be 1 to {CONCURRENCY_MAX}. "
                "To let nothing start, pause the queue"
            )
            raise InvalidValue(message, field="concurrency")
        if self.rate is not None and not RATE_MIN <= self.rate <= RATE_MAX:
            message = (
                f"rate is {shown(self.rate)} a second; it must be above 0 (from {RATE_MIN:g} on) "
                f"and at most {RATE_MAX:g}"
            )
            raise InvalidValue(message, field="rate")
        if self.burst is not None and self.rate is None:
            message = "burst is given without a rate; give a rate as well, or leave it out"
            raise InvalidValue(message, field="burst")
        if self.burst is not None and not 1 <= self.burst <= BURST_MAX:
            message = f"burst is {shown(self.burst)}; it must be 1 to {BURST_MAX}"
            raise InvalidValue(message, field="burst")

    @property
    def is_none(self) -> bool:
        """Whether it limits nothing."""
        return self.concurrency is None and self.rate is None

    @property
    def bucket(self) -> int:
        """How many starts the token bucket holds."""
        return self.burst or max(1, math.ceil(self.rate or 0))


class LimitKeywords(TypedDict, total=False):
    """A limit as keywords; what is not given is without limit."""

    concurrency: int | None
    rate: float | str | None
    burst: int | None


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue and of its groups."""

    queue: Limit = Limit()
    """Of all tasks of the queue together."""

    group: Limit = Limit()
    """Of each group of it by itself."""

    groups: dict[str, Limit] = {}
    """Of single groups, by their key, in place of `group`."""


def checked_limit(
    concurrency: object = None, rate: object = None, burst: object = None, prefix: str = ""
) -> Limit:
    """Return a limit of what a person gave; a rate is a number of starts a second, or text such as
    ``30/m``. Raises `InvalidValue` for the field, whose name begins with `prefix`.
    """
    try:
        return Limit(
            concurrency=_whole(concurrency, "concurrency"),
            rate=_rate(rate),
            burst=_whole(burst, "burst"),
        )
    except InvalidValue as error:
        field = f"{prefix}{error.field}"
        raise InvalidValue(f"{prefix}{error.message}", field=field) from None


def check_group_key(value: object, field: str = "group_key") -> str:
    """Accept the key of a group: 1 to 255 printable characters, compared byte for byte."""
    return check_key(value, field, "a group key")


def too_many_group_limits() -> InvalidValue:
    """Return the error for one limit of a single group too many."""
    message = (
        f"{GROUP_LIMITS_MAX} groups of the queue have a limit of their own, which is the most; "
        "give every group the limit that most of them need"
    )
    return InvalidValue(message, field="group_key")


def rate_of(text: str) -> float:
    """Return the starts a second that a text such as ``30/m`` means.

    Raises `InvalidValue` for any other text.
    """
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidValue(f"rate is {shown(text)}; {_RATE_SHAPE}", field="rate")
    return float(match[1]) / _SPANS[match[2]]


def rate_text(rate: float) -> str:
    """Return a rate as people write it: in the shortest span of time that makes it a short number
    of at least 1.
    """
    counts = {span: rate * seconds for span, seconds in _SPANS.items()}
    for span, count in counts.items():
        if count >= 1 and math.isclose(count, round(count, _SHOWN_DIGITS), rel_tol=1e-12):
            return _short(round(count, _SHOWN_DIGITS), span)
    span = next((span for span, count in counts.items() if count >= 1), "d")
    return _short(counts[span], span)


def _short(count: float, span: str) -> str:
    return f"{count:.6f}".rstrip("0").rstrip(".") + f"/{span}"


def divided(limit: Limit, parts: int) -> list[Limit]:
    """Divide a limit evenly, what is left over to the first parts, so that together they allow as
    much as it does. Raises `InvalidValue` for one that is too low to be divided.
    """
    if limit.concurrency is not None and limit.concurrency < parts:
        message = (
            f"concurrency is {limit.concurrency}; the tasks of a queue are in {parts} databases, "
            f"so its limit is at least {parts}. For less, limit its groups: each is in one database"
        )
        raise InvalidValue(message, field="concurrency")
    if limit.rate is not None and limit.bucket < parts:
        message = (
            f"burst is {limit.bucket}; the tasks of a queue are in {parts} databases, so with a "
            f"rate its burst is at least {parts}. Give that burst, or limit its groups"
        )
        raise InvalidValue(message, field="burst")
    rate = limit.rate
    return [
        Limit(
            concurrency=_share(limit.concurrency, parts, at),
            rate=None if rate is None else rate / parts,
            burst=None if rate is None else _share(limit.bucket, parts, at),
        )
        for at in range(parts)
    ]


def together(parts: Sequence[Limit]) -> Limit:
    """Return the limit that parts make together; what one of them does not limit has no limit."""
    rates = [part.rate for part in parts if part.rate is not None]
    rate = None if len(rates) < len(parts) else float(f"{math.fsum(rates):.12g}")
    counts = [part.concurrency for part in parts if part.concurrency is not None]
    whole = Limit(concurrency=None if len(counts) < len(parts) else sum(counts), rate=rate)
    burst = sum(part.bucket for part in parts)
    if rate is None or burst == whole.bucket:
        return whole
    return Limit(concurrency=whole.concurrency, rate=rate, burst=burst)


def _share(count: int | None, parts: int, at: int) -> int | None:
    return None if count is None else count // parts + (at < count % parts)


def _rate(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        return rate_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(f"rate is {shown(value)}; {_RATE_SHAPE}", field="rate")
    return float(value) if abs(value) <= RATE_MAX else math.inf


def _whole(value: object, field: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidValue(f"{field} is {shown(value)}; give a whole number", field=field)
