"""From messages to the values that the REST API reads from JSON, and back from what it answers.

A message becomes the dict that its JSON would have been, so everything after that, every bound and
every sentence, is the same for both.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from mainspring.api.errors import MalformedRequest
from mainspring.api.limits import decode_free
from mainspring.domain.errors import InvalidValue, PayloadTooLarge

M = TypeVar("M", bound=Message)

JSON_FIELDS: Final = frozenset({"payload", "result", "progress", "data", "spec"})
"""Text fields that hold JSON."""

JOINED_FIELDS: Final = frozenset({"timetable", "policy", "run"})
"""Messages whose fields count as those of the message around them: REST has them side by side."""

_FRACTIONS: Final = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


def parse(kind: type[M], data: bytes, bytes_max: int) -> M:
    """Return the message that bytes stand for; raises `PayloadTooLarge` or `MalformedRequest`."""
    if len(data) > bytes_max:
        text = f"the message has more than {bytes_max:,} bytes; send less at once"
        raise PayloadTooLarge(text)
    try:
        return kind.FromString(data)
    except DecodeError:
        name = kind.DESCRIPTOR.full_name
        text = f"the message is not a {name}: other bytes, compressed ones, or text beyond UTF-8"
        raise MalformedRequest(text) from None


def values_of(message: Message, prefix: str = "") -> dict[str, Any]:
    """Return what was given in a message, by the names of its fields.

    Fields that this version does not know are refused, as REST does: whoever sent one meant
    something by it. Raises `InvalidValue` for a number that is no value of its enum, and
    `MalformedRequest` for text that is not JSON where JSON belongs.
    """
    if len(UnknownFieldSet(message)):
        kind = message.DESCRIPTOR.full_name
        where = prefix.rstrip(".") or None
        text = f"a {kind} has a field that this version of the server does not know; leave it out"
        raise InvalidValue(text, field=where)
    given: dict[str, Any] = {}
    for field in _fields(message.DESCRIPTOR):
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.is_repeated:
            if value:
                given[field.name] = _listed(field, value, f"{prefix}{field.name}")
        elif field.name in JOINED_FIELDS:
            given |= values_of(value, prefix)
        else:
            _take(given, field, value, f"{prefix}{field.name}")
    return given


def message_of(kind: type[M], value: object) -> M:
    """Return an answer as a message; what the message has no field for is left out."""
    described: Any = kind.DESCRIPTOR
    return kind(**_arguments(described, value))


def word(enum: EnumDescriptor, number: int, field: str) -> str | None:
    """Return the word for a value of an enum, None for 0; raises `InvalidValue` for no value."""
    known = _words(enum)
    if number == 0:
        return None
    if number not in known:
        choices = ", ".join(f"{n} ({text})" for n, text in known.items())
        message = f"{field} is {number}, which is no {enum.name}; choose from {choices}"
        raise InvalidValue(message, field=field)
    return known[number]


def _take(given: dict[str, Any], field: FieldDescriptor, value: Any, path: str) -> None:
    found = _single(field, value, path)
    if found is not None or field.name in JSON_FIELDS:
        given[field.name] = found


def _single(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.name in JSON_FIELDS:
        return decode_free(value.encode(), what=path)
    if field.enum_type is not None:
        return word(field.enum_type, value, path)
    if field.message_type is not None:
        return values_of(value, f"{path}.")
    if field.type in _FRACTIONS and value.is_integer():
        # JSON has one kind of number, so 5.0 is 5 there.
        return int(value)
    return value


def _listed(field: FieldDescriptor, values: Iterable[Any], path: str) -> list[Any]:
    found = []
    for place, value in enumerate(values):
        one = _single(field, value, f"{path}[{place}]")
        if one is None:
            message = f"{path}[{place}] is 0, which stands for nothing; leave it out"
            raise InvalidValue(message, field=f"{path}[{place}]")
        found.append(one)
    return found


@cache
def _fields(kind: Any) -> tuple[FieldDescriptor, ...]:
    return tuple(kind.fields)


@cache
def _words(enum: EnumDescriptor) -> dict[int, str]:
    """Return the words of an enum by number: TASK_STATUS_PENDING of TaskStatus is `pending`."""
    letters = (f"_{letter}" if letter.isupper() else letter.upper() for letter in enum.name)
    prefix = "".join(letters).lstrip("_") + "_"
    return {
        value.number: value.name.removeprefix(prefix).lower()
        for value in enum.values
        if value.number
    }


@cache
def _numbers(enum: EnumDescriptor) -> dict[str, int]:
    return {text: number for number, text in _words(enum).items()}


Writer = Callable[[Any], Any]


@cache
def _writers(kind: Descriptor) -> tuple[tuple[str, Writer], ...]:
    return tuple((field.name, _writer(field)) for field in kind.fields)


def _arguments(kind: Descriptor, value: object) -> dict[str, Any]:
    given = value if isinstance(value, Mapping) else None
    arguments = {}
    for name, write in _writers(kind):
        part = getattr(value, name, None) if given is None else given.get(name)
        if part is not None:
            arguments[name] = write(part)
    return arguments


def _writer(field: FieldDescriptor) -> Writer:
    write = _single_writer(field)
    if field.is_repeated and not _is_map(field):
        return lambda values: [write(value) for value in values]
    return write


def _single_writer(field: FieldDescriptor) -> Writer:
    if field.name in JSON_FIELDS:
        return json_text
    if field.enum_type is not None:
        numbers = _numbers(field.enum_type)
        # A word of a later version than the protos is "unspecified" rather than an error.
        return lambda value: numbers.get(str(value), 0)
    if _is_map(field):
        return dict
    if field.message_type is not None:
        kind = field.message_type
        return lambda value: _arguments(kind, value)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text
    return lambda value: value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def json_text(value: Any) -> str:
    """Return a value as JSON text; text that already is JSON as it is."""
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else _encoded(value)


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, UUID) else _encoded(value)
