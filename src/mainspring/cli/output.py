"""Writing data to standard output and everything else to standard error."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from mainspring.domain.task import Task

CELL_LENGTH_MAX: Final = 80
_CELL_LENGTH_MIN: Final = 12
_GAP: Final = 2


def print_json(value: Any) -> None:
    """Write one JSON value on a line of its own, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell the person, not the pipe."""
    click.echo(text, err=True)


def is_terminal() -> bool:
    """Whether a person is looking at standard output."""
    return sys.stdout.isatty()


def escaped(text: str) -> str:
    """Return text on one line that does nothing to a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def when(moment: datetime | None) -> str:
    """Return a time for a person: local when on a terminal, always with its offset."""
    if moment is None:
        return "-"
    shown = moment.astimezone() if is_terminal() else moment.astimezone(UTC)
    return shown.isoformat(sep=" ", timespec="seconds")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write columns of text; the last one is cut to `CELL_LENGTH_MAX` and, on a terminal, to its
    width.
    """
    cells = [list(columns), *([escaped(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    room = CELL_LENGTH_MAX
    if is_terminal():
        others = sum(widths[:-1]) + _GAP * (len(widths) - 1)
        room = min(room, max(_CELL_LENGTH_MIN, shutil.get_terminal_size().columns - others))
    for row in cells:
        parts = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo((" " * _GAP).join([*parts[:-1], shortened(row[-1], room)]).rstrip())


def shortened(text: str, length: int) -> str:
    """Return text of at most so many characters, with a sign that there is more of it."""
    return text if len(text) <= length else text[: length - 1] + "…"


def print_task(task: Task) -> None:
    """Write one task, a field a line."""
    for name, value in msgspec.structs.asdict(task).items():
        if name == "attempts" or value is None or value == ():
            continue
        click.echo(f"{name:<18} {escaped(_plain(value))}")
    for attempt in task.attempts:
        click.echo(
            f"{'attempt ' + str(attempt.attempt):<18} {when(attempt.ended_at)} {attempt.kind}: "
            f"{escaped(attempt.error)}"
        )


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
