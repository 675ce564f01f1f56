"""`mainspring migrate`: bring the database to the schema of this version."""

import asyncio
from pathlib import Path

import click

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import note, print_json
from mainspring.wiring.store import grant_services, migration_plan
from mainspring.wiring.store import migrate as apply_migrations


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit status 1 if there is work.")
@click.option("--dry-run", is_flag=True, help="Print the SQL and change nothing.")
@click.option(
    "--grant-to",
    "role",
    metavar="ROLE",
    help="Afterwards give this database role what the services need, and nothing more.",
)
@json_option
@store_options
def migrate(
    *,
    check: bool,
    dry_run: bool,
    role: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Bring the database to the schema of this version. Safe to repeat and to run twice at once."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    if check or dry_run:
        return _show_plan(
            asyncio.run(migration_plan(settings)), check=check, dry_run=dry_run, as_json=as_json
        )
    done = asyncio.run(apply_migrations(settings))
    for name in done:
        if as_json:
            print_json({"migration": name, "status": "applied"})
        else:
            click.echo(f"{name} applied")
    if not done:
        note("the database is up to date")
    if role is not None:
        asyncio.run(grant_services(settings, role))
        note(f"{role} may run the services")
    return EXIT_DONE


def _show_plan(plan: list[tuple[str, str]], *, check: bool, dry_run: bool, as_json: bool) -> int:
    for name, sql in plan:
        if as_json:
            print_json({"migration": name, "status": "missing"} | ({"sql": sql} if dry_run else {}))
        elif dry_run:
            click.echo(f"-- {name}\n{sql}")
        else:
            click.echo(f"{name} missing")
    if not plan:
        note("the database is up to date")
    return EXIT_FAILED if check and plan else EXIT_DONE
