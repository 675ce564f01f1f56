"""`mainspring shards`: the databases that the task store is divided into."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import note, print_json, print_table
from mainspring.config import split_urls
from mainspring.domain.errors import StoreUnavailable
from mainspring.domain.partitions import spans
from mainspring.wiring.shards import shard_labels


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
        if as_json:
            row = {"shard": place, "name": name, "state": state, "partitions": partitions}
            print_json({**row, "map_version": version})
        rows.append((name, state, spans(partitions) if partitions else "-", version or "-"))
    if not as_json:
        print_table(("SHARD", "STATE", "PARTITIONS", "MAP"), rows)
