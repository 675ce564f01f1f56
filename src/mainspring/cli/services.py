"""`mainspring api`, `worker` and `scheduler`: one role of a process each."""

from pathlib import Path

import click
import uvloop

from mainspring.adapters.logs import configure_logs, teller
from mainspring.cli.apps import load_app
from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.options import (
    health_option,
    listen_options,
    settings_of,
    store_options,
    worker_options,
)
from mainspring.cli.output import note
from mainspring.core.registry import Registry
from mainspring.domain.errors import AppNotFound
from mainspring.wiring.roles import run_api, run_scheduler, run_worker


@click.command()
@worker_options
@health_option
@store_options
def worker(
    *,
    app: str | None,
    queues: str | None,
    levels: str | None,
    labels: str | None,
    processes: int | None,
    concurrency: int | None,
    health_port: int | None,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Run the tasks of an app, and http tasks, until SIGTERM or Ctrl-C.

    Without --app only tasks of the built-in types are run.

    The first signal drains: no new task is taken and running ones may finish. The second one
    leaves at once; tasks that were running run again elsewhere.
    """
    settings = settings_of(
        app=app,
        queues=queues,
        levels=levels,
        labels=labels,
        processes=processes,
        concurrency=concurrency,
        health_port=health_port,
        database_url=database_url,
        data_dir=data_dir,
    )
    if not settings.app and not settings.http_tasks:
        raise AppNotFound(
            "no app is named and http_tasks is off; give --app MODULE:APP or MAINSPRING_APP"
        )
    configure_logs(settings.log_level, settings.log_format)
    registry = load_app(settings.app).registry if settings.app else Registry()
    done = uvloop.run(run_worker(settings, registry, teller(settings.log_format, note)))
    return EXIT_DONE if done else EXIT_FAILED


@click.command()
@listen_options
@store_options
def api(
    *,
    host: str | None,
    port: int | None,
    grpc_port: int | None,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Serve the API until SIGTERM or Ctrl-C; requests that are under way are answered."""
    settings = settings_of(
        host=host,
        port=port,
        grpc_port=grpc_port,
        database_url=database_url,
        data_dir=data_dir,
    )
    configure_logs(settings.log_level, settings.log_format)
    done = uvloop.run(run_api(settings, teller(settings.log_format, note)))
    return EXIT_DONE if done else EXIT_FAILED


@click.command()
@click.option("--app", metavar="MODULE:APP", help="App whose schedules are deployed.")
@health_option
@store_options
def scheduler(
    *,
    app: str | None,
    health_port: int | None,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Run schedules, rescue the tasks of dead workers and keep house, until SIGTERM or Ctrl-C.

    It hands its share of the schedules over at once when it is stopped.
    """
    settings = settings_of(
        app=app, health_port=health_port, database_url=database_url, data_dir=data_dir
    )
    configure_logs(settings.log_level, settings.log_format)
    registry = load_app(settings.app).registry if settings.app else None
    done = uvloop.run(run_scheduler(settings, registry, teller(settings.log_format, note)))
    return EXIT_DONE if done else EXIT_FAILED
