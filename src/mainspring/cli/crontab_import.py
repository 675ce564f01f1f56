"""Importing a crontab: a schedule for each line, past lines that are wrong."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.installations import with_installation
from mainspring.cli.output import escaped, note, print_json
from mainspring.config import Settings
from mainspring.core.crontab import (
    CRONTAB_BYTES_MAX,
    CrontabEntry,
    CrontabProblem,
    read_crontab,
)
from mainspring.core.installation import Installation
from mainspring.core.schedules import Change, OnConflict
from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import shown
from mainspring.worker.shell import SHELL_TYPE, check_enabled


def import_crontab(
    settings: Settings,
    path: Path,
    *,
    check_only: bool,
    timezone: str,
    prefix: str,
    options: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Import a crontab and return the exit status: 1 when a line was wrong."""
    found = list(read_crontab(_read(path), timezone, prefix))
    entries = [one for one in found if isinstance(one, CrontabEntry)]
    problems = [one for one in found if isinstance(one, CrontabProblem)]
    if not check_only and entries:
        check_enabled(is_enabled=settings.shell_tasks)

    async def store(installation: Installation) -> None:
        for entry in entries:
            try:
                await installation.schedules.create(
                    entry.name, _change(entry, options), OnConflict.REPLACE
                )
            except InvalidValue as error:
                problems.append(
                    CrontabProblem(line=entry.line, message=error.message, field=error.field)
                )

    if entries and not check_only:
        with_installation(settings, store)
    _report(entries, problems, check_only=check_only, as_json=as_json)
    return EXIT_FAILED if problems else EXIT_DONE


def _change(entry: CrontabEntry, options: Mapping[str, Any]) -> Change:
    payload: dict[str, Any] = {"command": entry.command}
    if entry.stdin:
        payload["stdin"] = entry.stdin
    if entry.environment:
        payload["environment"] = entry.environment
    return Change(
        task_type=SHELL_TYPE,
        payload=payload,
        # As with cron itself, a command that fails waits for its next time.
        options={"cron": entry.cron, "timezone": entry.timezone, "max_retries": 0, **options},
    )


def _report(
    entries: list[CrontabEntry],
    problems: list[CrontabProblem],
    *,
    check_only: bool,
    as_json: bool,
) -> None:
    refused = {problem.line for problem in problems}
    kept = [entry for entry in entries if entry.line not in refused]
    if as_json:
        for entry in kept:
            print_json(entry)
        for problem in problems:
            print_json({"line": problem.line, "field": problem.field, "error": problem.message})
        return
    for entry in kept:
        click.echo(f"{entry.name}  {entry.cron}  {entry.timezone}  {escaped(entry.command)}")
    for problem in sorted(problems, key=lambda one: one.line):
        note(f"line {problem.line}: {escaped(problem.message)}")
    done = "can be imported" if check_only else "imported"
    note(f"{len(kept)} schedules {done}, {len(problems)} lines refused")


def _read(path: Path) -> str:
    try:
        raw = (
            sys.stdin.buffer.read(CRONTAB_BYTES_MAX + 1) if str(path) == "-" else path.read_bytes()
        )
        if len(raw) > CRONTAB_BYTES_MAX:
            raise InvalidValue(
                f"file {shown(str(path))} has more than {CRONTAB_BYTES_MAX:,} bytes; split it",
                field="file",
            )
        return raw.decode()
    except OSError as error:
        raise InvalidValue(f"file {shown(str(path))}: {error.strerror}", field="file") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"file {shown(str(path))} is not UTF-8 text", field="file") from None
