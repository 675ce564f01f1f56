"""`mainspring up`: everything of one machine in one command."""

from pathlib import Path

import click
import uvloop

from mainspring.adapters.logs import configure_logs, teller
from mainspring.cli.apps import load_app
from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.options import listen_options, settings_of, store_options, worker_options
from mainspring.cli.output import note
from mainspring.wiring.roles import run_up


@click.command()
@listen_options
@worker_options
@click.option(
    "--embedded-port",
    type=int,
    help="TCP port for the PostgreSQL it runs (default: a socket in the data directory).",
)
@store_options
def up(
    *,
    host: str | None,
    port: int | None,
    grpc_port: int | None,
    app: str | None,
    queues: str | None,
    levels: str | None,
    labels: str | None,
    processes: int | None,
    concurrency: int | None,
    embedded_port: int | None,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Run everything here until Ctrl-C: database, API, scheduler and worker.

    The worker runs the tasks of --app, and http tasks also without one.

    Without a configured database it runs its own PostgreSQL on the data directory; the data is
    kept for the next time. Other commands in the same directory find it by themselves.
    """
    settings = settings_of(
        host=host,
        port=port,
        grpc_port=grpc_port,
        app=app,
        queues=queues,
        levels=levels,
        labels=labels,
        processes=processes,
        concurrency=concurrency,
        embedded_port=embedded_port,
        database_url=database_url,
        data_dir=data_dir,
    )
    configure_logs(settings.log_level, settings.log_format)
    registry = load_app(settings.app).registry if settings.app else None
    done = uvloop.run(run_up(settings, registry, teller(settings.log_format, note)))
    return EXIT_DONE if done else EXIT_FAILED
