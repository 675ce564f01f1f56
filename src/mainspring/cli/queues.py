"""`mainspring queues`: what waits where, the switches and the limits."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mainspring.cli.installations import with_installation
from mainspring.cli.limit_words import limit_words
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import note, print_json, print_table
from mainspring.cli.queue_limits import limit
from mainspring.core.installation import Installation
from mainspring.ports.branches import BranchState
from mainspring.ports.store import QueueState


@click.group()
def queues() -> None:
    """Queues: what waits in them, their switches and their limits."""


queues.add_command(limit)


@queues.command("list")
@json_option
@store_options
def list_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List queues with their counts, which stop at 100,000.

    Below a queue stands what of it needs labels, and how many live workers can take that. HELD and
    LIMIT are there when groups or limits hold tasks back: HELD of those that are READY.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = with_installation(settings, lambda installation: installation.lifecycle.queues())
    if as_json:
        for state in found:
            print_json(state)
        return
    columns: tuple[str, ...] = ("QUEUE", "STATE", "READY", "SCHEDULED", "RUNNING", "OLDEST READY")
    rows = (row for state in found for row in _rows(state))
    if any(state.held or state.limit or state.group_limit for state in found):
        columns = (*columns, "HELD", "LIMIT")
        rows = (row for state in found for row in _limited(state))
    print_table(columns, rows)


def _rows(state: QueueState) -> Iterator[Sequence[object]]:
    """Yield a line for a queue, and one for each set of labels that tasks of it need."""
    yield (state.queue, "paused" if state.paused else "active", *_counts(state))
    for branch in state.branches:
        yield (f"  {','.join(branch.labels)}", _placed(branch), *_counts(branch))


def _limited(state: QueueState) -> Iterator[Sequence[object]]:
    """Yield the same lines with what is held, and why."""
    limits = [
        words
        for words in (limit_words(state.limit), limit_words(state.group_limit, "each group "))
        if words
    ]
    (first, *others) = _rows(state)
    yield (*first, state.held, "; ".join(limits) or "-")
    yield from ((*row, "", "") for row in others)


def _placed(branch: BranchState) -> str:
    if not branch.workers:
        return "no worker"
    if branch.unplaceable:
        return "no handler"
    return "1 worker" if branch.workers == 1 else f"{branch.workers} workers"


def _counts(state: QueueState | BranchState) -> Sequence[object]:
    oldest = state.oldest_ready_seconds
    age = "-" if oldest is None else f"{oldest:.0f} s"
    return (state.ready, state.scheduled, state.running, age)


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
