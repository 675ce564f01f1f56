"""`mainspring workers`: which workers are alive."""

from pathlib import Path

import click

from mainspring.cli.installations import with_installation
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import print_json, print_table, when


@click.group()
def workers() -> None:
    """Workers that are alive."""


@workers.command("list")
@json_option
@store_options
def list_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List workers as they last described themselves."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = with_installation(settings, lambda installation: installation.lifecycle.workers())
    if as_json:
        for state in found:
            print_json(state)
        return
    print_table(
        ("WORKER", "HOST", "PID", "STATE", "BUSY", "SLOTS", "QUEUES", "LEVELS", "LABELS", "SEEN"),
        (
            (
                state.worker_id,
                state.hostname,
                state.pid,
                "draining" if state.draining else "active",
                state.busy,
                state.slots,
                "all" if state.queues is None else ",".join(state.queues),
                "all" if state.lanes is None else ",".join(state.lanes),
                ",".join(state.labels) or "-",
                when(state.seen_at),
            )
            for state in found
        ),
    )
