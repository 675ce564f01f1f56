"""Writing values of handlers as JSON text that the task store can hold."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mainspring.core.json_text import is_harmless
from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.values import PAYLOAD_BYTES_MAX, check_json, is_plain_json, shown

_LOSSY: Final = (
    (
        bytes | bytearray | memoryview,
        "JSON has no bytes; give text, such as base64 text that the handler decodes",
    ),
    (set | frozenset, "JSON has no sets; give a list"),
)


def encode(value: Any, field: str, *, strict: bool = False) -> str:
    """Return JSON text, at most 256 KiB of it.

    Dates, UUIDs, decimals, enums, dataclasses and msgspec Structs become JSON as msgspec writes
    them, and so do bytes and sets, which come back as text and lists; `strict` refuses those.
    Raises `InvalidValue` with the path of the part that cannot be stored.
    """
    data = _exact(value)
    if data is None:
        plain = value if is_plain_json(value) else _checked(value, field, strict=strict)
        data = msgspec.json.encode(plain)
    if len(data) > PAYLOAD_BYTES_MAX:
        message = (
            f"{field} has {len(data):,} bytes as JSON; the most is {PAYLOAD_BYTES_MAX:,}, so keep "
            "the data elsewhere and give its address"
        )
        raise PayloadTooLarge(message, field=field)
    return data.decode()


def _exact(value: Any) -> bytes | None:
    """Return the text of a value that is beyond doubt: it comes back from it as it is, so nothing
    was changed by writing it. None: it takes a closer look.
    """
    try:
        data = msgspec.json.encode(value)
        if is_harmless(data) and msgspec.json.decode(data) == value:
            return data
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        pass
    return None


def _checked(value: Any, field: str, *, strict: bool) -> Any:
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # The encoder's own message has no path; the check finds the part where it can.
        check_json(value, field)
        raise InvalidValue(f"{field} cannot be written as JSON: {error}", field=field) from None
    check_json(plain, field)
    if strict:
        _refuse_lossy(value, field)
    return plain


def _refuse_lossy(value: Any, path: str) -> None:
    """Refuse what would come back as something else. The encoder has found no cycle before."""
    for kind, way_out in _LOSSY:
        if isinstance(value, kind):
            message = f"{path} is {shown(value)}, of the type {type(value).__name__}; {way_out}"
            raise InvalidValue(message, field=path)
    for step, part in _parts(value):
        _refuse_lossy(part, path + step)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f".{shown(str(key))[1:-1]}", part
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield f"[{place}]", part
    else:
        for name in _fields(type(value)):
            yield f".{name}", getattr(value, name, None)


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a class that the encoder writes as an object."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(one.name for one in dataclasses.fields(kind))
    return tuple(one.name for one in getattr(kind, "__attrs_attrs__", ()))
