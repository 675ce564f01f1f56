"""Task types that Mainspring brings along, as every way to submit tasks knows them."""

from typing import Final

import msgspec

from mainspring.domain.errors import InvalidValue
from mainspring.domain.http_request import HTTP_TYPE, parse_request
from mainspring.domain.webhooks import DELIVERY_TYPE

RESERVED: Final = frozenset({HTTP_TYPE, DELIVERY_TYPE})
"""Names that no app can give to a handler of its own."""


def check_builtin(task_type: str, payload: str, field: str = "payload") -> None:
    """Raise `InvalidValue` for a task of a built-in type whose payload its handler would refuse.

    `payload` is JSON text of an object. Other types pass: their handlers may be anywhere.
    """
    if task_type == HTTP_TYPE:
        parse_request(msgspec.json.decode(payload), field)
    elif task_type == DELIVERY_TYPE:
        message = (
            f"task_type is {DELIVERY_TYPE}, which Mainspring submits itself when a task with a "
            "webhook ends; give a webhook to a task instead"
        )
        raise InvalidValue(message, field="task_type")


def check_unreserved(name: str) -> None:
    """Raise `InvalidValue` when a handler would have the name of a built-in type."""
    if name in RESERVED:
        message = f"task type {name!r} is built in; give the handler another name"
        raise InvalidValue(message, field="name")
