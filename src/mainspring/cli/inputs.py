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
from mainspring.domain.values import PAYLOAD_BYTES_MAX, parse_instant, shown
from mainspring.wiring.store import system_clock

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
    if text[:1].isdigit() and ("T" not in text and "-" not in text):
        return system_clock().now() - timedelta(seconds=parse_duration(text, field))
    return parse_instant(text, field)


def read_payload(argument: str | None) -> Mapping[str, Any] | None:
    """Read a payload: JSON text, `@FILE`, or `-` for standard input. None when not given."""
    if argument is None:
        return None
    if argument == "-":
        raw: str | bytes = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
    elif argument.startswith("@"):
        raw = _read_file(argument[1:])
    else:
        raw = argument
    value = decode(raw, "payload")
    if not isinstance(value, dict):
        message = f"payload is {shown(value)}; give a JSON object, the handler's parameters by name"
        raise InvalidValue(message, field="payload")
    return value


def _read_file(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(PAYLOAD_BYTES_MAX + 1)
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
