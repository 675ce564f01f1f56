"""Writing values of handlers as JSON text that the task store can hold."""

from typing import Any

import msgspec

from mainspring.domain.errors import InvalidValue, PayloadTooLarge
from mainspring.domain.values import PAYLOAD_BYTES_MAX, check_json, is_plain_json


def encode(value: Any, field: str) -> str:
    """Return JSON text, at most 256 KiB of it.

    Dates, UUIDs, decimals, enums, sets, dataclasses and msgspec Structs become JSON as msgspec
    writes them. Raises `InvalidValue` with the path of the part that cannot be stored.
    """
    plain = value if is_plain_json(value) else _checked(value, field)
    data = msgspec.json.encode(plain)
    if len(data) > PAYLOAD_BYTES_MAX:
        message = (
            f"{field} has {len(data):,} bytes as JSON; the most is {PAYLOAD_BYTES_MAX:,}, so keep "
            "the data elsewhere and give its address"
        )
        raise PayloadTooLarge(message, field=field)
    return data.decode()


def _checked(value: Any, field: str) -> Any:
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # The encoder's own message has no path; the check finds the part where it can.
        check_json(value, field)
        raise InvalidValue(f"{field} cannot be written as JSON: {error}", field=field) from None
    check_json(plain, field)
    return plain
