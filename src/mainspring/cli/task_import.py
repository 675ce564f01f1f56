"""Importing a file of tasks: in batches, never twice, and past lines that are wrong."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import click
import msgspec

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.installations import with_installation
from mainspring.cli.output import escaped, note, print_json
from mainspring.config import Settings
from mainspring.core.installation import Installation
from mainspring.core.json_text import decode
from mainspring.core.options import checked_options
from mainspring.core.registry import Registry
from mainspring.core.submission import build_task, complete_options
from mainspring.domain.errors import AccessDenied, InvalidValue
from mainspring.domain.task import NewTask
from mainspring.domain.values import PAYLOAD_BYTES_MAX, check_name, shown
from mainspring.ports.clock import IdSource
from mainspring.wiring.store import system_ids

BATCH_LINES: Final = 1000
_LINE_BYTES_MAX: Final = 2 * PAYLOAD_BYTES_MAX
_WHOLE: Final = "line"
_DIGEST_CHUNK: Final = 1 << 20
_DIGEST_LENGTH: Final = 32
_REPORTED_MAX: Final = 100


class Line(NamedTuple):
    """One line of the file: a task, or what is wrong with it."""

    number: int
    task: NewTask | None
    problem: InvalidValue | None
    end: int
    """Bytes of the file up to the end of this line."""


class Tally:
    """What became of the lines."""

    def __init__(self) -> None:
        self.stored = 0
        self.repeated = 0
        self.refused = 0

    def add(self, *, is_new: bool) -> None:
        """Count a line whose task is in the store."""
        if is_new:
            self.stored += 1
        else:
            self.repeated += 1

    def refuse(self, number: int, field: str | None, message: str, *, as_json: bool) -> None:
        """Report a line that is wrong."""
        self.refused += 1
        if as_json:
            print_json({"line": number, "field": field, "error": message})
        elif self.refused <= _REPORTED_MAX:
            _wipe_bar()
            note(f"line {number}: {escaped(message)}")
        elif self.refused == _REPORTED_MAX + 1:
            _wipe_bar()
            note("further wrong lines are counted and not shown; --json shows all")


def import_tasks(
    settings: Settings, path: Path, registry: Registry | None, *, check_only: bool, as_json: bool
) -> int:
    """Import a file and return the exit status: 1 when a line was wrong. With a registry payloads
    are checked against handlers, and the defaults of their types apply.
    """
    tally = Tally()
    try:
        with path.open("rb") as file:
            digest = _digest(file)
            lines = _lines(file, digest, partial(_task, system_ids(), registry))
            size = path.stat().st_size
            with _progress(size) as moved:
                if check_only:
                    for batch in _batches(lines, tally, as_json=as_json):
                        moved(batch[-1].end)
                else:
                    with_installation(
                        settings, partial(_store, lines, tally, moved, as_json=as_json)
                    )
    except UnsupportedOperation:
        message = (
            f"file {shown(str(path))} is read twice, so that importing it again adds nothing; "
            "save it as a regular file"
        )
        raise InvalidValue(message, field="file") from None
    except OSError as error:
        raise InvalidValue(f"file {shown(str(path))}: {error.strerror}", field="file") from None
    if as_json:
        print_json({"stored": tally.stored, "repeated": tally.repeated, "refused": tally.refused})
    else:
        click.echo(
            f"{tally.stored:,} tasks stored, {tally.repeated:,} were there already, "
            f"{tally.refused:,} lines refused"
        )
    return EXIT_FAILED if tally.refused else EXIT_DONE


async def _store(
    lines: Iterator[Line],
    tally: Tally,
    moved: Callable[[int], None],
    installation: Installation,
    *,
    as_json: bool,
) -> None:
    for batch in _batches(lines, tally, as_json=as_json):
        built = [(line.number, line.task) for line in batch if line.task is not None]
        answers = await installation.submissions.attempt_many([task for _, task in built])
        for (number, task), answer in zip(built, answers, strict=True):
            if isinstance(answer, InvalidValue | AccessDenied):
                tally.refuse(number, answer.field, answer.message, as_json=as_json)
            elif isinstance(answer, BaseException):
                raise answer
            elif answer.conflict:
                message = f"key {shown(task.key)} was used before for a different task"
                tally.refuse(number, "key", message, as_json=as_json)
            else:
                tally.add(is_new=answer.is_new)
        moved(batch[-1].end)


def _batches(lines: Iterator[Line], tally: Tally, *, as_json: bool) -> Iterator[list[Line]]:
    batch: list[Line] = []
    for line in lines:
        if line.problem is not None:
            tally.refuse(line.number, line.problem.field, line.problem.message, as_json=as_json)
        batch.append(line)
        if len(batch) == BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch


def _lines(file: BinaryIO, digest: str, read: Callable[[bytes, str], NewTask]) -> Iterator[Line]:
    number = 0
    end = 0
    while raw := file.readline(_LINE_BYTES_MAX + 1):
        number += 1
        end += len(raw)
        if len(raw) > _LINE_BYTES_MAX:
            # Kept too long, so that it is refused below; the rest of it is skipped.
            while rest := file.readline(_LINE_BYTES_MAX):
                end += len(rest)
                if rest.endswith(b"\n"):
                    break
        if not raw.strip():
            continue
        try:
            yield Line(number, read(raw, f"import:{digest}:{number}"), None, end)
        except InvalidValue as problem:
            yield Line(number, None, problem, end)


def _task(ids: IdSource, registry: Registry | None, raw: bytes, key: str) -> NewTask:
    value = _decode(raw)
    if not isinstance(value, dict):
        raise InvalidValue(f"line is {shown(value)}; write a JSON object", field=_WHOLE)
    if "task_type" not in value:
        raise InvalidValue("task_type is missing; name the type of the task", field="task_type")
    task_type = value.pop("task_type")
    payload = value.pop("payload", {})
    given = {name: one for name, one in value.items() if one is not None}
    definition = None
    if registry is not None:
        definition = registry.get(check_name(task_type, "task_type"))
    options = complete_options(checked_options(given), definition)
    built = build_task(ids, task_type, payload, options, definition)
    if built.key is not None or built.unique_key is not None:
        return built
    return build_task(
        ids, task_type, payload, msgspec.structs.replace(options, key=key), definition
    )


def _decode(raw: bytes) -> Any:
    """Read a line; what is wrong inside is named as a field of the task."""
    try:
        return decode(raw, _WHOLE, _LINE_BYTES_MAX)
    except InvalidValue as error:
        inside = f"{_WHOLE}."
        field = (error.field or _WHOLE).removeprefix(inside)
        raise InvalidValue(error.message.removeprefix(inside), field=field) from None


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_DIGEST_CHUNK):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()[:_DIGEST_LENGTH]


def _wipe_bar() -> None:
    """Make room for a line of text where the bar is; the bar is drawn anew when it moves."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[2K", nl=False, err=True)


@contextmanager
def _progress(size: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, counted in bytes of the file; silent elsewhere. Yields what moves it."""
    stream = sys.stderr
    if not stream.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=max(1, size), label="Importing", file=stream) as bar:
        yield lambda end: bar.update(end - bar.pos)
