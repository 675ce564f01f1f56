"""`mainspring queues`: what waits where, and the switches."""

from pathlib import Path

import click

from mainspring.cli.installations import with_installation
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import note, print_json, print_table
from mainspring.core.installation import Installation


@click.group()
def queues() -> None:
    """Queues: what waits in them, and their switches."""


@queues.command("list")
@json_option
@store_options
def list_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List queues with their counts, which stop at 100,000."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = with_installation(settings, lambda installation: installation.lifecycle.queues())
    if as_json:
        for state in found:
            print_json(state)
        return
    print_table(
        ("QUEUE", "STATE", "READY", "SCHEDULED", "RUNNING", "OLDEST READY"),
        (
            (
                state.queue,
                "paused" if state.paused else "active",
                state.ready,
                state.scheduled,
                state.running,
                "-"
                if state.oldest_ready_seconds is None
                else f"{state.oldest_ready_seconds:.0f} s",
            )
            for state in found
        ),
    )


@queues.command()
@click.argument("queue", metavar="Q")
@store_options
def pause(queue: str, *, database_url: str | None, data_dir: Path | None) -> None:
    """Let no task of a queue start until it is resumed; running ones go on."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)

    async def work(installation: Installation) -> bool:
        known = any(state.queue == queue for state in await installation.lifecycle.queues())
        await installation.lifecycle.pause(queue)
        return known

    if not with_installation(settings, work):
        note(f"queue {queue!r} has had no task so far; it is paused for those to come")
    click.echo(f"{queue} is paused")


@queues.command()
@click.argument("queue", metavar="Q")
@store_options
def resume(queue: str, *, database_url: str | None, data_dir: Path | None) -> None:
    """Let the tasks of a queue start again."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    with_installation(settings, lambda installation: installation.lifecycle.resume(queue))
    click.echo(f"{queue} is active")
