"""Reading JSON text from outside so that nothing in it is changed silently or does harm.

The parsers at hand accept what the task store or another client cannot hold:
numbers that are not numbers, numbers that turn into others, keys that hide one another, nesting
without end. All of that is refused here, with the name of the field.
"""

import json
import math
import re
from itertools import pairwise
from typing import Any, Final

import msgspec

from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.values import (
    DEPTH_MAX,
    NO_NUMBER,
    NODES_MAX,
    NUMBER_DIGITS_MAX,
    PAYLOAD_BYTES_MAX,
    check_json,
    shown,
)

_EXACT_DIGITS: Final = 17
"""A number with a fraction of more significant digits than these cannot be held exactly."""

_SAFE_BRACKETS: Final = DEPTH_MAX
_FLAT_BYTES: Final = 2 * DEPTH_MAX
"""Text has no room for too many brackets in so few bytes."""

_SAFE_BYTES: Final = 2 * NODES_MAX
_DIGITS: Final = b"0123456789"
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % NUMBER_DIGITS_MAX)


def decode(text: str | bytes, field: str, bytes_max: int = PAYLOAD_BYTES_MAX) -> Any:
    """Return the value that JSON text stands for, checked with `domain.values.check_json`.

    Raises `InvalidValue` (or `PayloadTooLarge` over `bytes_max` bytes of UTF-8) for `field`.
    """
    try:
        data = text.encode() if isinstance(text, str) else text
        plain = data.decode() if isinstance(text, bytes) else text
    except UnicodeError:
        raise InvalidValue(f"{field} is not text in UTF-8", field=field) from None
    if len(data) > bytes_max:
        message = (
            f"{field} has more than {bytes_max:,} bytes; keep the data elsewhere and give its "
            "address"
        )
        raise PayloadTooLarge(message, field=field)
    reader = _Reader(field)
    try:
        value = json.loads(
            plain,
            object_pairs_hook=reader.unique,
            parse_constant=reader.constant,
            parse_int=reader.whole,
            parse_float=reader.fraction,
        )
    except json.JSONDecodeError as error:
        message = f"{field} is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        raise InvalidValue(message, field=field) from None
    except RecursionError:
        message = f"{field} is nested too deeply; make it flatter"
        raise InvalidValue(message, field=field) from None
    check_json(value, field)
    return value


def refuse_double_keys(data: bytes, field: str) -> None:
    """Raise `InvalidValue` if JSON text, which was found to be such, has a key twice."""
    try:
        json.loads(data, object_pairs_hook=_Reader(field).unique)
    except (RecursionError, ValueError) as error:
        if isinstance(error, InvalidValue):
            raise
        message = f"{field} is nested too deeply or has a number that is too long"
        raise InvalidValue(message, field=field) from None


class _Reader:
    """The choices that the parser leaves to us."""

    def __init__(self, field: str) -> None:
        self._field = field

    def unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            keys = sorted(key for key, _ in pairs)
            twice = next(key for key, after in pairwise(keys) if key == after)
            raise self._refusal(f"has the key {shown(twice)} twice in one object; keep one")
        return value

    def constant(self, name: str) -> Any:
        raise self._refusal(f"contains {name}, {NO_NUMBER}")

    def whole(self, literal: str) -> int:
        if len(literal) > NUMBER_DIGITS_MAX:
            raise self._refusal(
                f"has a number of more than {NUMBER_DIGITS_MAX} characters; send it as text"
            )
        return int(literal)

    def fraction(self, literal: str) -> float:
        mantissa = literal.lower().partition("e")[0]
        digits = mantissa.lstrip("-").replace(".", "").strip("0")
        number = float(literal) if len(literal) <= NUMBER_DIGITS_MAX else math.inf
        if len(digits) > _EXACT_DIGITS or not math.isfinite(number) or (digits and not number):
            raise self._refusal(
                f"has the number {shown(literal)}, which would be changed by storing it; "
                "send it as text"
            )
        return number

    def _refusal(self, problem: str) -> InvalidValue:
        return InvalidValue(f"{self._field} {problem}", field=self._field)


def decode_exact(data: bytes, field: str, bytes_max: int) -> Any:
    """Return what `decode` returns, sooner for text that is written as a serialiser writes it.

    Text that comes out the same when its value is written again has no key twice and no number
    that was changed; short text with few brackets cannot be too deep or have too many parts; and
    without escapes it holds no NUL and no half of a surrogate pair. All else goes the long way.
    """
    if len(data) <= bytes_max and is_harmless(data):
        try:
            value = msgspec.json.decode(data)
            if msgspec.json.encode(value) == data:
                return value
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            pass
    return decode(data, field, bytes_max)


def is_harmless(data: bytes) -> bool:
    """Return whether JSON text is too short to have too many parts or to be too deep, and has
    neither escapes, which stand for NUL and halves of surrogate pairs, nor long numbers.
    """
    return (
        len(data) <= _SAFE_BYTES
        and (b"\\" not in data or b"\\u" not in data)
        and (len(data) <= _FLAT_BYTES or data.count(b"{") + data.count(b"[") <= _SAFE_BRACKETS)
        and not _has_long_number(data)
    )


def _has_long_number(data: bytes) -> bool:
    # A number that long has a digit at one of these places; nearly all other text has none.
    places = data[NUMBER_DIGITS_MAX - 1 :: NUMBER_DIGITS_MAX]
    if len(places) <= 1:
        if not places.isdigit():
            return False
    elif len(places.translate(None, _DIGITS)) == len(places):
        return False
    return _LONG_NUMBER.search(data) is not None
