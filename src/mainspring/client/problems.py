"""From a problem that the API answers with to the error that an app would have raised."""

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from mainspring.domain.errors import MainspringError, QuotaExceeded, Refused, StoreUnavailable

_FIRST_OF_SERVER: Final = 500


class _Problem(msgspec.Struct):
    code: str
    detail: str
    field: str | None = None


def error_of(status: int, retry_after: str | None, body: bytes) -> MainspringError:
    """Return the error that an answer stands for.

    A code that this version does not know is `Refused`; an answer of something between here and
    the API, such as a proxy, passes by itself if it is of the 500s.
    """
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except msgspec.MsgspecError:
        message = f"the answer was {status} without a reason"
        return StoreUnavailable(message) if status >= _FIRST_OF_SERVER else Refused(message)
    kind = _BY_CODE.get(problem.code, Refused)
    if issubclass(kind, QuotaExceeded):
        return kind(problem.detail, field=problem.field, retry_after=seconds_of(retry_after) or 1.0)
    return kind(problem.detail, field=problem.field)


def error_of_item(code: str, detail: str, field: str | None) -> MainspringError:
    """Return the error of one task of a batch."""
    return _BY_CODE.get(code, Refused)(detail, field=field)


def seconds_of(retry_after: str | None) -> float:
    """Return the pause that `Retry-After` asks for; 0 if it asks for none in seconds."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _kinds(kind: type[MainspringError]) -> Iterator[type[MainspringError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


_BY_CODE: Final = {kind.code: kind for kind in reversed([*_kinds(MainspringError)])}
"""Of several kinds with one code the most general one."""
