"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mainspring.config import Settings, load
from mainspring.domain.errors import InvalidConfiguration

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


app_option = click.option(
    "--app",
    metavar="MODULE:APP",
    help="Check payloads against the handlers of this app; their defaults apply.",
)


def store_options(command: F) -> F:
    """Add the options that say where the task store is."""
    return _DATABASE(_DATA(command))


health_option = click.option(
    "--health-port",
    type=int,
    help="Port that answers /health/live and /health/ready (default: -1, none).",
)


def worker_options(command: F) -> F:
    """Add the options of a worker."""
    for option in (
        click.option("--concurrency", type=int, help="Tasks at a time in each runner process."),
        click.option("--processes", type=int, help="Runner processes (default: one a core)."),
        click.option("--labels", help="Offer these labels to tasks that need them: gpu,region=eu."),
        click.option("--levels", help="Take only these priority levels: critical,high,..."),
        click.option("--queues", help="Take only from these queues: a,b."),
        click.option("--app", metavar="MODULE:APP", help="App whose handlers run."),
    ):
        command = option(command)
    return command


def listen_options(command: F) -> F:
    """Add the options that say where the API listens."""
    for option in (
        click.option(
            "--grpc-port", type=int, help="Port of the gRPC API (default: 8401; -1: none)."
        ),
        click.option("--port", type=int, help="Port of the API (default: 8400)."),
        click.option("--host", help="Address that the API listens on (default: 127.0.0.1)."),
    ):
        command = option(command)
    return command


def settings_of(**overrides: object) -> Settings:
    """Return the settings with what the command line says on top.

    Who names a database there means it, so no API takes its place.
    """
    if overrides.get("database_url") is not None or overrides.get("data_dir") is not None:
        overrides["api_url"] = ""
    return load(overrides)


def database_settings_of(**overrides: object) -> Settings:
    """Return the settings for a command that needs the database itself."""
    settings = settings_of(**overrides)
    if settings.api_url and not settings.database_url:
        raise InvalidConfiguration(
            f"this command needs the database itself, and only the API at {settings.api_url} is "
            "configured; give --database-url or --data, or set MAINSPRING_DATABASE_URL"
        )
    return settings
