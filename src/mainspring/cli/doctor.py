"""`mainspring doctor`: is everything as it should be?"""

import asyncio
import importlib
from collections.abc import AsyncIterator
from pathlib import Path

import click

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED, EXIT_UNREACHABLE
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import escaped, print_json
from mainspring.config import Settings
from mainspring.wiring.checkup import findings, of_settings
from mainspring.wiring.findings import Finding


@click.command()
@json_option
@store_options
def doctor(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> int:
    """Check every configured part: settings, the API, etcd, Redis, each database (durability,
    clock, pooler, schema), workers and schedulers.

    Exit status 1 if something is wrong, 3 if a database or the API cannot be reached.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    failed = asyncio.run(_look(settings, as_json=as_json))
    # With shards each of them is named before what was looked at.
    if {check.rpartition(": ")[2] for check in failed} & {"database", "api"}:
        return EXIT_UNREACHABLE
    return EXIT_FAILED if failed else EXIT_DONE


async def _look(settings: Settings, *, as_json: bool) -> set[str]:
    failed: set[str] = set()
    async for finding in _found(settings):
        if not finding.ok:
            failed.add(finding.check)
        _print(finding, as_json=as_json)
    return failed


async def _found(settings: Settings) -> AsyncIterator[Finding]:
    yield of_settings()
    if settings.api_url:
        # What it takes to speak to an API is only loaded by who has one.
        api = importlib.import_module("mainspring.client.checkup")
        async for finding in api.findings(settings):
            yield finding
    if settings.database_url or not settings.api_url:
        async for finding in findings(settings):
            yield finding


def _print(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        print_json(finding)
    else:
        mark = "ok" if finding.ok else "WRONG"
        click.echo(f"{mark:<5}  {finding.check:<20} {escaped(finding.detail)}")
