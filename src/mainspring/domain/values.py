"""What a value must be to be accepted, everywhere and before anything is stored.

The bounds are the intersection of what Python, PostgreSQL, Redis, protobuf and JavaScript can all
hold. Each function returns the accepted value or raises `InvalidValue` with the name of the
field, what was wrong and what would be right.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.priority import HIGHEST, LOWEST

PAYLOAD_BYTES_MAX: Final = 256 * 1024
"""Of an encoded payload, result or progress value."""

ERROR_BYTES_MAX: Final = 8 * 1024
DEPTH_MAX: Final = 64
NODES_MAX: Final = 10_000
NUMBER_DIGITS_MAX: Final = 64
NO_NUMBER: Final = "which JSON has no number for; send null or text"
NAME_LENGTH_MAX: Final = 200
KEY_LENGTH_MAX: Final = 255
TIMEOUT_SECONDS_MAX: Final = 30 * 86400.0
RETRIES_MAX: Final = 1000
BATCH_MAX: Final = 10_000
INSTANT_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_MAX: Final = datetime(2200, 1, 1, tzinfo=UTC)

_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (type(None), "null"),
    (str, "text"),
    (bool, "true or false"),
    ((int, float), "a number"),
    ((list, tuple), "a list"),
    (dict, "an object"),
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*", re.ASCII)
_URL_ACCOUNT: Final = re.compile(r"(?<=://)[^\s/@:]*:[^\s/]*(?=@)")
_PASSWORD: Final = re.compile(r"(?<=password=)(?:'[^']*'|[^\s'&;,)]+)", re.IGNORECASE)
_HIDDEN: Final = "***"
_NUMBER_LIMIT: Final = 10**NUMBER_DIGITS_MAX
_SHOWN: Final = 60


def shown(value: object) -> str:
    """Return a value as it may stand in a message: one escaped line of bounded length."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - a value whose repr fails must not hide the real problem
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def kind_of(value: object) -> str:
    """Return what sort of value it is, for messages about what must not be seen itself."""
    for kinds, word in _KINDS:
        if isinstance(value, kinds):
            return word
    return type(value).__name__


def check_name(value: object, field: str) -> str:
    """Accept the name of a task type, queue, label or worker: 1 to 200 ASCII characters."""
    if isinstance(value, str) and len(value) <= NAME_LENGTH_MAX and _NAME.fullmatch(value):
        return value
    message = (
        f"{field} is {shown(value)}; a name has 1 to {NAME_LENGTH_MAX} characters, letters, "
        "digits and _ . : / - and starts with a letter, digit or _"
    )
    raise InvalidValue(message, field=field)


def check_key(value: object, field: str = "key", what: str = "an idempotency key") -> str:
    """Accept a key of any kind: 1 to 255 printable characters, compared byte for byte."""
    if isinstance(value, str) and 0 < len(value) <= KEY_LENGTH_MAX and value.isprintable():
        return value
    message = f"{field} is {shown(value)}; {what} has 1 to {KEY_LENGTH_MAX} printable characters"
    raise InvalidValue(message, field=field)


def check_priority(value: object, field: str = "priority") -> int:
    """Accept a whole number from 0 (most urgent) to 10."""
    return check_whole(value, field, HIGHEST, LOWEST)


def check_whole(value: object, field: str, low: int, high: int) -> int:
    """Accept a whole number within bounds; a bool is not a number."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    message = f"{field} is {shown(value)}; give a whole number from {low} to {high}"
    raise InvalidValue(message, field=field)


def check_seconds(
    value: object, field: str, high: float = TIMEOUT_SECONDS_MAX, *, zero: bool = False
) -> float:
    """Accept a finite number of seconds above zero (or from zero on) up to a bound."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) if abs(value) <= high else math.inf
        if seconds <= high and (seconds > 0 or (zero and seconds == 0)):
            return seconds
    least = "from 0" if zero else "above 0"
    message = f"{field} is {shown(value)}; give a number of seconds {least} and up to {high:,.0f}"
    raise InvalidValue(message, field=field)


def check_instant(value: object, field: str) -> datetime:
    """Accept a time with its offset from UTC, in 1970 to 2199, and return it in UTC."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            message = (
                f"{field} is {shown(value.isoformat())}, which has no offset from UTC; "
                "add one, such as +00:00 or a tzinfo"
            )
            raise InvalidValue(message, field=field)
        try:
            instant = value.astimezone(UTC)
        except (OverflowError, ValueError):
            instant = None
        if instant is not None and INSTANT_MIN <= instant < INSTANT_MAX:
            return instant
    given = value.isoformat() if isinstance(value, datetime) else value
    message = f"{field} is {shown(given)}; give a time from 1970 to 2199 with its offset from UTC"
    raise InvalidValue(message, field=field)


def parse_instant(text: str, field: str) -> datetime:
    """Read an ISO 8601 time with its offset, such as 2026-05-12T15:00:00Z."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        message = f"{field} is {shown(text)}; give an ISO 8601 time such as 2026-05-12T15:00:00Z"
        raise InvalidValue(message, field=field) from None
    return check_instant(value, field)


def is_plain_json(value: object) -> bool:
    """Return whether a value is beyond doubt: only the types that JSON has, and `check_json`
    accepts it. False means that it has to be looked at more closely.

    It looks at a value level by level and does not remember where it is, which makes it several
    times as fast as finding out what to complain about.
    """
    level: list[Any] = [value]
    nodes = 0
    for _ in range(DEPTH_MAX):
        nodes += len(level)
        below: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is dict:
                if not all(type(key) is str and _text_problem(key) is None for key in part):
                    return False
                below += part.values()
            elif kind is list:
                below += part
            elif not _is_plain_leaf(part, kind):
                return False
        if not below or nodes > NODES_MAX:
            return nodes <= NODES_MAX
        level = below
    return False


def _is_plain_leaf(part: Any, kind: type) -> bool:
    if kind is str:
        return _text_problem(part) is None
    if kind is int:
        return -_NUMBER_LIMIT < int(part) < _NUMBER_LIMIT
    if kind is float:
        return math.isfinite(part)
    return part is None or kind is bool


def check_json(value: object, field: str) -> None:
    """Accept a value that every part of the system can store and give back unchanged.

    Refused, with the path of the offending part: text with NUL or a lone surrogate, numbers that
    are not finite or have over 64 digits, keys that are not text, types that JSON lacks, nesting
    deeper than 64 levels, and more than 10,000 parts.
    """
    stack: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    nodes = 0
    while stack:
        part, path = stack.pop()
        nodes += 1
        if nodes > NODES_MAX:
            message = f"{field} has more than {NODES_MAX:,} parts; split the work into more tasks"
            raise PayloadTooLarge(message, field=field)
        problem = _problem(part)
        if problem is not None:
            where = _dotted(field, path)
            raise InvalidValue(f"{where} {problem}", field=where)
        if isinstance(part, dict | list | tuple):
            if len(path) >= DEPTH_MAX:
                message = f"{field} is nested deeper than {DEPTH_MAX} levels; make it flatter"
                raise InvalidValue(message, field=field)
            stack.extend((child, (*path, step)) for step, child in _children(part, field, path))


def _children(
    part: dict[Any, Any] | list[Any] | tuple[Any, ...], field: str, path: tuple[object, ...]
) -> Iterator[tuple[object, object]]:
    if not isinstance(part, dict):
        yield from enumerate(part)
        return
    for key, child in part.items():
        where = _dotted(field, path)
        if not isinstance(key, str):
            message = f"{where} has the key {shown(key)}; the keys of an object are text"
            raise InvalidValue(message, field=where)
        problem = _text_problem(key)
        if problem is not None:
            raise InvalidValue(f"{where} has the key {shown(key)}, which {problem}", field=where)
        yield key, child


def _problem(part: object) -> str | None:
    if isinstance(part, str):
        problem = _text_problem(part)
        return None if problem is None else f"is text that {problem}"
    if part is None or isinstance(part, bool | dict | list | tuple):
        return None
    if isinstance(part, int):
        if -_NUMBER_LIMIT < part < _NUMBER_LIMIT:
            return None
        return f"is a whole number of more than {NUMBER_DIGITS_MAX} digits; send it as text"
    if isinstance(part, float):
        return None if math.isfinite(part) else f"is {part}, {NO_NUMBER}"
    kind = type(part).__name__
    return f"has the type {kind}; use text, numbers, true, false, null, lists and objects"


def _text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "contains the NUL character, which the task store cannot hold; remove it"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "contains half of a surrogate pair, which is not valid Unicode; remove it"
    return None


def _dotted(field: str, path: tuple[object, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)[1:-1]}" for step in path)
    return (field + "".join(steps))[:NAME_LENGTH_MAX]


def hide_secrets(text: str) -> str:
    """Return text without the accounts in its URLs and without what follows `password=`."""
    return _PASSWORD.sub(_HIDDEN, _URL_ACCOUNT.sub(_HIDDEN, text))


def clip_text(text: str, bytes_max: int = ERROR_BYTES_MAX) -> str:
    """Return text that can be stored whatever it was: no NUL, no lone surrogate, bounded size.

    The end of an error says more than its beginning, so the middle is what is left out.
    """
    clean = text.replace("\x00", "\\x00").encode(errors="backslashreplace")
    if len(clean) <= bytes_max:
        return clean.decode()
    half = bytes_max // 2 - 4
    return clean[:half].decode(errors="ignore") + "\n...\n" + clean[-half:].decode(errors="ignore")
