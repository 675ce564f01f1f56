"""Watching tasks: a live table on a terminal, a stream of changes elsewhere."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn
from uuid import UUID

import click
import msgspec
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.installations import with_installation
from mainspring.cli.output import escaped, is_terminal, print_json, shortened
from mainspring.config import Settings
from mainspring.core.installation import Installation
from mainspring.domain.status import TERMINAL, TaskStatus
from mainspring.domain.task import Task
from mainspring.ports.store import TaskFilter
from mainspring.wiring.store import system_clock

_ROWS: Final = 20
_ID_LENGTH: Final = 36
_ERROR_LENGTH: Final = 60


def watch_tasks(
    settings: Settings, task_id: UUID | None, *, pause_seconds: float, as_json: bool
) -> int:
    """Show changes of one task until it ends, or of the newest tasks until Ctrl-C."""

    async def work(installation: Installation) -> int:
        if task_id is not None:
            show = _line_printer(as_json=as_json)
            return await _follow(installation, task_id, pause_seconds, show)
        if is_terminal() and not as_json:
            return await _show_live(installation, pause_seconds)
        return await _stream(installation, pause_seconds, _line_printer(as_json=as_json))

    with suppress(KeyboardInterrupt):
        return with_installation(settings, work)
    return EXIT_DONE


def _line_printer(*, as_json: bool) -> Callable[[Task], None]:
    if as_json:
        return print_json
    return lambda task: click.echo(
        f"{task.task_id} {escaped(task.task_type)} {_status(task)} attempt {task.attempt_count}"
        f"{_progress(task)}{' ' + escaped(task.last_error) if task.last_error else ''}"
    )


async def _follow(
    installation: Installation, task_id: UUID, pause_seconds: float, show: Callable[[Task], None]
) -> int:
    seen: object = None
    while True:
        task = await installation.lifecycle.get(task_id)
        if (now := _visible(task)) != seen:
            seen = now
            show(task)
        if task.status in TERMINAL:
            return EXIT_DONE if task.status is TaskStatus.COMPLETED else EXIT_FAILED
        await system_clock().sleep(pause_seconds)


async def _stream(
    installation: Installation, pause_seconds: float, show: Callable[[Task], None]
) -> NoReturn:
    """Print a task when it is new or has changed; of the newest 20."""
    seen: dict[UUID, object] = {}
    while True:
        found = await _newest(installation)
        for task in reversed(found):
            if (now := _visible(task)) != seen.get(task.task_id):
                show(task)
            seen[task.task_id] = now
        seen = {task.task_id: seen[task.task_id] for task in found}
        await system_clock().sleep(pause_seconds)


async def _newest(installation: Installation) -> list[Task]:
    return [task async for task in installation.lifecycle.scan(TaskFilter(), _ROWS)]


async def _show_live(installation: Installation, pause_seconds: float) -> NoReturn:
    with Live(auto_refresh=False) as live:
        while True:
            found = await _newest(installation)
            live.update(live_table(found), refresh=True)
            await system_clock().sleep(pause_seconds)


def live_table(found: list[Task]) -> Table:
    """Return what is on the screen: a task a line, the newest first."""
    # A row is a line. What gives way on a narrow terminal is the text of the last two columns, and
    # never the id, because it is copied from here.
    firm = (Column(name, no_wrap=True) for name in ("STATUS", "TYPE", "SCHEDULED", "ATTEMPT"))
    whole = Column("ID", no_wrap=True, min_width=_ID_LENGTH)
    table = Table(whole, *firm, "PROGRESS", "ERROR", box=None)
    for task in found:
        cells = (
            str(task.task_id),
            _status(task),
            escaped(task.task_type),
            f"{task.scheduled_at.astimezone():%m-%d %H:%M:%S}",
            str(task.attempt_count),
            _progress(task).strip(),
            shortened(escaped(task.last_error or ""), _ERROR_LENGTH),
        )
        # As Text: brackets in what users wrote are no markup.
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    return table


def _status(task: Task) -> str:
    return "ready" if task.ready else task.status.value


def _progress(task: Task) -> str:
    return "" if task.progress is None else " " + escaped(bytes(task.progress).decode())


def _visible(task: Task) -> object:
    return (
        _status(task),
        task.attempt_count,
        task.cancel_requested,
        msgspec.json.encode(task.progress),
    )
