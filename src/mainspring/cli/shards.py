"""`mainspring shards`: the databases that the task store is divided into."""

import asyncio
import importlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import note, print_json, print_table
from mainspring.config import split_urls
from mainspring.domain.errors import InvalidValue, StoreUnavailable
from mainspring.domain.moves import read_partitions
from mainspring.domain.partitions import spans
from mainspring.wiring.shards import shard_labels

_MOVING: Final = "mainspring.wiring.moving"
"""Loaded only by those commands that need it."""


@click.group()
def shards() -> None:
    """Shards: the databases that the task store is divided into."""


@shards.command("list")
@json_option
@store_options
def list_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List the shards, their partitions, and whether they answer."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    if len(split_urls(settings.database_url)) <= 1:
        note("there is one database, which keeps every partition; name several to have shards")
        return
    rows: list[Sequence[object]] = []
    partitions: tuple[int, ...]
    for place, (name, label) in enumerate(asyncio.run(shard_labels(settings)), 1):
        if isinstance(label, StoreUnavailable):
            state, version, partitions = "does not answer", None, ()
        else:
            state, version = "answers", label.map.version
            partitions = label.map.partitions_of(label.shard)
            if label.moving:
                state = f"refuses {spans(label.moving)}, which move away"
            elif not label.is_settled:
                state = "answers; a move is not finished"
        if as_json:
            row = {"shard": place, "name": name, "state": state, "partitions": partitions}
            print_json({**row, "map_version": version})
        rows.append((name, state, spans(partitions) if partitions else "-", version or "-"))
    if not as_json:
        print_table(("SHARD", "STATE", "PARTITIONS", "MAP"), rows)
    with suppress(StoreUnavailable):
        move = asyncio.run(_moving().move_state(settings))
        if move is not None:
            note(str(move))


@shards.command("add")
@store_options
def add_command(*, database_url: str | None, data_dir: Path | None) -> None:
    """Make shards of the empty databases at the end of database_url.

    They keep no partition until some are moved to them. What comes before may be one installation
    that was not divided. Start every process again with the longer list before you move anything.
    """
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    labels = asyncio.run(_moving().add_shards(settings))
    for label in labels:
        kept = spans(label.map.partitions_of(label.shard))
        click.echo(f"shard {label.shard + 1} keeps {kept}")
    note("start every process with this list of databases before you move partitions")


@shards.command("plan")
@json_option
@store_options
def plan_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Print the moves after which all shards keep as many partitions."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    moves = asyncio.run(_moving().even_moves(settings))
    for move in moves:
        if as_json:
            print_json(
                {"partitions": move.partitions, "from": move.source + 1, "to": move.target + 1}
            )
        else:
            words = spans(move.partitions).replace(", ", ",")
            click.echo(f"mainspring shards move {words} --to {move.target + 1}")
    if not moves:
        note("no shard keeps two partitions more than another; there is nothing to move")


@shards.command("move")
@click.argument("partitions", nargs=-1)
@click.option("--to", "target", type=int, metavar="SHARD", help="Number of the shard, from 1 on.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@click.option("--resume", is_flag=True, help="Go on with the move that is under way.")
@click.option("--cancel", is_flag=True, help="Take back the move that is under way.")
@click.option(
    "--freeze-seconds",
    type=click.FloatRange(0.1, 300),
    default=8.0,
    show_default=True,
    help="Longest that writes to the partitions wait before it gives up; callers wait for 10 s.",
)
@json_option
@store_options
def move_command(
    *,
    partitions: tuple[str, ...],
    target: int | None,
    dry_run: bool,
    resume: bool,
    cancel: bool,
    freeze_seconds: float,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Move partitions, such as 3 or 8-15, to another shard while everything runs.

    Whatever becomes of this command, run it again to go on.
    """
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    mover = _moving().removals(settings, note, freeze_seconds=freeze_seconds)
    if resume or cancel:
        if partitions or target is not None or dry_run or (resume and cancel):
            raise InvalidValue("--resume and --cancel take nothing else; leave the rest out")
        if cancel:
            asyncio.run(mover.cancel())
            note("the move was taken back")
            return
        _tell(asyncio.run(mover.resume()), as_json=as_json)
        return
    if not partitions or target is None:
        raise InvalidValue(
            "name the partitions and the shard, as in `mainspring shards move 8-15 --to 2`"
        )
    chosen = read_partitions(partitions)
    if dry_run:
        _show(asyncio.run(mover.outlook(chosen, target - 1)), as_json=as_json)
        return
    _tell(asyncio.run(mover.move(chosen, target - 1)), as_json=as_json)


def _tell(seconds: float, *, as_json: bool) -> None:
    if as_json:
        print_json({"refused_seconds": round(seconds, 3)})
    else:
        click.echo(f"moved; writes to the partitions were refused for {seconds:.2f} s")


def _show(outlook: Any, *, as_json: bool) -> None:
    for one in outlook.amounts:
        if as_json:
            row = {"table": one.table, "rows": one.rows, "bytes": one.bytes}
            print_json({**row, "while": "refused" if one.is_last else "running"})
    if as_json:
        print_json({"expected_refused_seconds": round(outlook.freeze_seconds, 2)})
        return
    print_table(
        ("TABLE", "ROWS", "BYTES", "COPIED"),
        [
            (one.table, one.rows, one.bytes, "at last" if one.is_last else "while all runs")
            for one in outlook.amounts
        ],
    )
    note(
        f"from shard {outlook.move.source + 1} to shard {outlook.move.target + 1}; writes to the "
        f"partitions are expected to wait for about {outlook.freeze_seconds:.1f} s at the end"
    )


def _moving() -> Any:
    return importlib.import_module(_MOVING)
