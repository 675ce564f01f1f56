"""Reading what users type: payloads, durations, ids."""

import re
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import click

from mainspring.core.json_text import decode
from mainspring.core.lifecycle import task_id_of
from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import PAYLOAD_BYTES_MAX, check_instant, kind_of, parse_instant, shown
from mainspring.wiring.store import system_clock

_READ_MAX: Final = PAYLOAD_BYTES_MAX + 1
_DURATION: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?[dhms])+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PLAIN: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)


def parse_duration(text: str, field: str) -> float:
    """Read a duration such as 90s, 5m, 2h, 1d, 1h30m, or a plain number of seconds."""
    if _PLAIN.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    raise InvalidValue(
        f"{field} is {shown(text)}; write a duration as 90s, 5m, 2h or 1d", field=field
    )


def parse_since(text: str, field: str) -> datetime:
    """Read a time, or a duration that is counted back from now."""
    try:
        ago = parse_duration(text, field)
    except InvalidValue:
        ago = None
    try:
        if ago is None:
            return parse_instant(text, field)
        return check_instant(system_clock().now() - timedelta(seconds=ago), field)
    except (InvalidValue, OverflowError):
        message = (
            f"{field} is {shown(text)}; give a time from 1970 on such as 2026-05-12T15:00:00Z, or "
            "how long ago it was, such as 2h"
        )
        raise InvalidValue(message, field=field) from None


def read_payload(argument: str | None) -> Mapping[str, Any] | None:
    """Read a payload: JSON text, `@FILE`, or `-` for standard input. None when not given."""
    if argument is None:
        return None
    if argument == "-":
        # Python has no standard input at all when it was started with it closed.
        raw: str | bytes = b"" if sys.stdin is None else sys.stdin.buffer.read(_READ_MAX)
    elif argument.startswith("@"):
        raw = _read_file(argument[1:])
    else:
        raw = argument
    value = decode(raw, "payload")
    if not isinstance(value, dict):
        message = (
            f"payload is {kind_of(value)}; give a JSON object, the handler's parameters by name"
        )
        raise InvalidValue(message, field="payload")
    return value


def _read_file(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(_READ_MAX)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidValue(f"payload file {shown(name)}: {reason}", field="payload") from None


def as_task_id(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> UUID | None:
    """Turn an argument into a task id, or refuse it with a sentence."""
    del context, parameter
    return None if value is None else task_id_of(value)


def as_task_ids(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[UUID, ...]:
    """Turn arguments into task ids."""
    del context, parameter
    return tuple(task_id_of(value) for value in values)
