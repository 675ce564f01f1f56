"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mainspring.config import Settings, load

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one value, or one object a line."
)

_DATABASE = click.option(
    "--database-url",
    metavar="URL",
    help="PostgreSQL to use. Others can see it here: give a password in MAINSPRING_DATABASE_URL.",
)
_DATA = click.option(
    "--data",
    "data_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of `mainspring up` (default: .mainspring).",
)


def store_options(command: F) -> F:
    """Add the options that say where the task store is."""
    return _DATABASE(_DATA(command))


def worker_options(command: F) -> F:
    """Add the options of a worker."""
    for option in (
        click.option("--concurrency", type=int, help="Tasks at a time in each runner process."),
        click.option("--processes", type=int, help="Runner processes (default: one a core)."),
        click.option("--levels", help="Take only these priority levels: critical,high,..."),
        click.option("--queues", help="Take only from these queues: a,b."),
        click.option("--app", metavar="MODULE:APP", help="App whose handlers run."),
    ):
        command = option(command)
    return command


def listen_options(command: F) -> F:
    """Add the options that say where the API listens."""
    for option in (
        click.option("--port", type=int, help="Port of the API (default: 8400)."),
        click.option("--host", help="Address that the API listens on (default: 127.0.0.1)."),
    ):
        command = option(command)
    return command


def settings_of(**overrides: object) -> Settings:
    """Return the settings with what the command line says on top."""
    return load(overrides)
