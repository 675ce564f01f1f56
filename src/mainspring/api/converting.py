"""From values of JSON to the structs of the wire."""

from typing import Any

import msgspec

from mainspring.domain.errors import InvalidValue


def converted(value: Any, kind: type[msgspec.Struct], *, strict: bool = True) -> Any:
    """Return the struct that a value stands for, or raise `InvalidValue` for the field."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        field = where.rstrip("`").lstrip(".") or None
        message = f"{field}: {text}" if field else text
        raise InvalidValue(message, field=field) from None
