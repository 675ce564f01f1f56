"""What a value must be to be accepted for a setting."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mainspring.config.settings import Entry
from mainspring.config.urls import split_urls
from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import check_offered
from mainspring.domain.values import check_name, shown

_WHOLE_NUMBER_LENGTH_MAX: Final = 18
_LISTS: Final = frozenset({"database_url", "database_direct_url"})


def accept(entry: Entry, label: str, value: object) -> object:
    """Return the value of a setting from what a source has for it.

    Raises `InvalidValue` with a sentence that begins with `label`, the name in that source.
    """
    accepted = _ACCEPTORS[entry.kind](entry, label, value)
    if entry.facts.choices:
        given = accepted if isinstance(accepted, tuple) else (accepted,)
        for one in given:
            if one not in entry.facts.choices:
                choices = ", ".join(entry.facts.choices)
                raise InvalidValue(f"{label} is {shown(one)}; choose from {choices}")
    return accepted


def _accept_text(entry: Entry, label: str, value: object) -> str:
    if entry.name in _LISTS and isinstance(value, list):
        value = ",".join(map(str, value))
    if not isinstance(value, str) or "\x00" in value:
        raise InvalidValue(f"{label} is {shown(value)}; give text")
    text = value.strip()
    if entry.name.startswith("database_") and text:
        for url in split_urls(text) or (text,):
            _check_database_url(url, label)
    return text.lower() if entry.facts.choices else text


def _check_database_url(text: str, label: str) -> None:
    """The value is not shown: it may hold a password."""
    try:
        scheme = urlsplit(text).scheme
    except ValueError:
        scheme = ""
    if scheme not in {"postgresql", "postgres"}:
        message = (
            f"{label} is not a PostgreSQL URL; write postgresql://user:password@host:5432/name"
        )
        raise InvalidValue(message)


def _accept_path(_entry: Entry, label: str, value: object) -> Path:
    if isinstance(value, str | Path) and str(value) and "\x00" not in str(value):
        return Path(value).expanduser()
    raise InvalidValue(f"{label} is {shown(value)}; give the path of a directory")


def _accept_names(entry: Entry, label: str, value: object) -> tuple[str, ...]:
    if entry.name == "labels":
        return check_offered(value, label)
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise InvalidValue(f"{label} is {shown(value)}; give names separated by commas")
    texts = (part.strip() if isinstance(part, str) else part for part in parts)
    return tuple(check_name(text, label) for text in texts if text or not isinstance(value, str))


def _accept_whole(entry: Entry, label: str, value: object) -> int:
    number: object = value
    if isinstance(value, str) and len(value) <= _WHOLE_NUMBER_LENGTH_MAX:
        try:
            number = int(value)
        except ValueError:
            number = value
    if isinstance(number, int) and not isinstance(number, bool) and _within(entry, number):
        return number
    raise InvalidValue(f"{label} is {shown(value)}; give a whole number {_bounds(entry)}")


def _accept_number(entry: Entry, label: str, value: object) -> float:
    number: object = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = value
    if isinstance(number, int | float) and not isinstance(number, bool) and _within(entry, number):
        return float(number)
    unit = f" of {entry.facts.unit}" if entry.facts.unit else ""
    raise InvalidValue(f"{label} is {shown(value)}; give a number{unit} {_bounds(entry)}")


def _accept_switch(_entry: Entry, label: str, value: object) -> bool:
    given = value.strip().lower() if isinstance(value, str) else value
    for answer, words in ((True, _YES), (False, _NO)):
        if given is answer or given in words:
            return answer
    raise InvalidValue(f"{label} is {shown(value)}; give true or false")


_YES: Final = ("true", "yes", "on", "1")
_NO: Final = ("false", "no", "off", "0")

_ACCEPTORS: Final[dict[type, Callable[[Entry, str, object], object]]] = {
    str: _accept_text,
    Path: _accept_path,
    tuple: _accept_names,
    bool: _accept_switch,
    int: _accept_whole,
    float: _accept_number,
}


def _within(entry: Entry, number: float) -> bool:
    low, high = entry.facts.low, entry.facts.high
    return (low is None or number >= low) and (high is None or number <= high)


def _bounds(entry: Entry) -> str:
    return f"from {entry.facts.low:.10g} to {entry.facts.high:.10g}"
