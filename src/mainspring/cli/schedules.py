"""`mainspring schedules`: make, look at, change, pause, run and delete schedules."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from mainspring.adapters.system import SystemClock
from mainspring.cli.apps import registry_of
from mainspring.cli.crontab_import import import_crontab
from mainspring.cli.inputs import parse_duration, read_payload
from mainspring.cli.installations import with_installation
from mainspring.cli.options import app_option, json_option, settings_of, store_options
from mainspring.cli.output import note, print_json, print_table, when
from mainspring.cli.schedule_words import (
    chosen,
    policy_options,
    print_schedule,
    print_schedules,
    print_ticks,
    run_options,
    timetable_options,
)
from mainspring.core.installation import ScheduleVerbs
from mainspring.core.options import checked_options
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import Change, OnConflict, preview_of
from mainspring.domain.schedule import OverlapRule, Preview
from mainspring.domain.values import parse_instant


@click.group()
def schedules() -> None:
    """Schedules: cron expressions, intervals and single times, and what became of them."""


@schedules.command()
@click.argument("name")
@click.option("--type", "task_type", metavar="T", required=True, help="Task type of its runs.")
@click.option(
    "--if-exists",
    type=click.Choice([one.value for one in OnConflict]),
    default=OnConflict.ERROR.value,
    show_default=True,
    help="What becomes of another schedule of this name.",
)
@app_option
@run_options
@policy_options
@timetable_options
@json_option
@store_options
def create(
    name: str,
    *,
    task_type: str,
    if_exists: str,
    app: str | None,
    payload: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
    **given: Any,
) -> None:
    """Make a schedule: one of --cron, --every and --at says when.

    Priority, timeout, retries and queue that the handler's decorator names are known in its app
    only: without --app the defaults in brackets apply.
    """
    registry = registry_of(app)
    change = Change(
        task_type=task_type,
        payload=read_payload(payload),
        options=chosen(given),
        definition=None if registry is None else registry.get(task_type),
    )
    _one(
        lambda use: use.create(name, change, OnConflict(if_exists)),
        as_json=as_json,
        database_url=database_url,
        data_dir=data_dir,
    )


@schedules.command()
@click.argument("name")
@click.option("--type", "task_type", metavar="T", help="Task type of its runs.")
@click.option(
    "--clear", metavar="OPTION", multiple=True, help="Give an option its default again: end_at."
)
@run_options
@policy_options
@timetable_options
@json_option
@store_options
def update(
    name: str,
    *,
    task_type: str | None,
    clear: tuple[str, ...],
    payload: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
    **given: Any,
) -> None:
    """Change what is given. A change of its times never fires one that has passed."""
    words = tuple(word.replace("-", "_") for word in clear)
    change = Change(
        task_type=task_type, payload=read_payload(payload), options=chosen(given), clear=words
    )
    _one(
        lambda use: use.update(name, change),
        as_json=as_json,
        database_url=database_url,
        data_dir=data_dir,
    )


@schedules.command("list")
@json_option
@store_options
def list_command(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List schedules with their next times and counters."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = with_installation(settings, lambda installation: installation.schedules.all())
    if not as_json:
        print_schedules(found)
        return
    for schedule in found:
        print_json(schedule)


@schedules.command()
@click.argument("name")
@json_option
@store_options
def get(name: str, *, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Show one schedule."""
    _one(lambda use: use.get(name), as_json=as_json, database_url=database_url, data_dir=data_dir)


@schedules.command()
@click.argument("name")
@click.option("--note", metavar="TEXT", default="", help="Why; shown with the schedule.")
@json_option
@store_options
def pause(
    name: str, *, note: str, as_json: bool, database_url: str | None, data_dir: Path | None
) -> None:
    """Let a schedule make no more runs until it is resumed; runs that exist go on."""
    _one(
        lambda use: use.pause(name, note),
        as_json=as_json,
        database_url=database_url,
        data_dir=data_dir,
    )


@schedules.command()
@click.argument("name")
@click.option("--note", metavar="TEXT", default="", help="Shown with the schedule.")
@click.option("--catch-up", is_flag=True, help="Hand the times of the pause to its misfire policy.")
@json_option
@store_options
def resume(
    name: str,
    *,
    note: str,
    catch_up: bool,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Let a schedule go on; the times of the pause are forgotten unless --catch-up is given."""
    _one(
        lambda use: use.resume(name, note, catch_up=catch_up),
        as_json=as_json,
        database_url=database_url,
        data_dir=data_dir,
    )


@schedules.command()
@click.argument("name")
@click.option(
    "--overlap",
    type=click.Choice([one.value for one in OverlapRule]),
    help="Instead of its own policy.",
)
@json_option
@store_options
def trigger(
    name: str,
    *,
    overlap: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Run a schedule now and print the id of the task; its times stay as they are.

    Exit status 4 if an unfinished run does not allow it. Where a live task has the unique key of
    its runs, the id is of that one.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    tick = with_installation(
        settings, lambda installation: installation.schedules.trigger(name, overlap)
    )
    if as_json:
        print_json(tick)
        return
    if tick.reason is not None:
        note("a task with the unique key of its runs is live; this is that one")
    click.echo(str(tick.task_id))


@schedules.command()
@click.argument("name")
@click.option("--start", metavar="ISO8601", required=True, help="First time to run.")
@click.option("--end", metavar="ISO8601", required=True, help="Run times before this one.")
@click.option("--limit", type=int, default=1000, show_default=True, help="Most times to run.")
@click.option("--dry-run", is_flag=True, help="Only list the times.")
@json_option
@store_options
def backfill(
    name: str,
    *,
    start: str,
    end: str,
    limit: int,
    dry_run: bool,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Run times of the past now, except those that ran before, with the time before each."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    span = (parse_instant(start, "start"), parse_instant(end, "end"))
    result = with_installation(
        settings,
        lambda installation: installation.schedules.backfill(
            name, *span, limit=limit, dry_run=dry_run
        ),
    )
    if as_json:
        print_json(result)
        return
    started = set(result.started)
    rows = (
        (when(run.previous), when(run.nominal), "submitted" if run.nominal in started else "-")
        for run in result.runs
    )
    print_table(("FROM", "TO", "TASK"), rows)
    if result.truncated:
        click.echo("there are more; go on after the last one", err=True)


@schedules.command()
@click.argument("name")
@store_options
def delete(name: str, *, database_url: str | None, data_dir: Path | None) -> None:
    """Forget a schedule and its history; runs that exist go on."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    with_installation(settings, lambda installation: installation.schedules.delete(name))
    click.echo(f"{name} is deleted")


@schedules.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--before", metavar="ISO8601", help="Only times before this one.")
@json_option
@store_options
def history(
    name: str,
    *,
    limit: int,
    before: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Show what became of the times of a schedule, newest first."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    moment = None if before is None else parse_instant(before, "before")
    ticks = with_installation(
        settings, lambda installation: installation.schedules.history(name, limit, moment)
    )
    if not as_json:
        print_ticks(list(ticks))
        return
    for tick in ticks:
        print_json(tick)


@schedules.command()
@click.argument("expression", metavar="EXPR")
@click.option(
    "--timezone", metavar="Z", default="UTC", show_default=True, help="Zone to read it in."
)
@click.option("--count", type=int, default=10, show_default=True, help="How many times to show.")
@click.option("--after", metavar="ISO8601", help="Times after this one (default: now).")
@json_option
def preview(
    expression: str, *, timezone: str, count: int, after: str | None, as_json: bool
) -> None:
    """Show the next times of a cron expression in its zone and in UTC, with warnings."""
    moment = SystemClock().now() if after is None else parse_instant(after, "after")
    found = preview_of({"cron": expression, "timezone": timezone}, moment, count)
    if as_json:
        print_json(found)
    else:
        _print_preview(found)


@schedules.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--check", is_flag=True, help="Read every line and store nothing.")
@click.option(
    "--timezone", metavar="Z", default="UTC", show_default=True, help="Zone above any CRON_TZ."
)
@click.option("--prefix", default="cron", show_default=True, help="Begins the names of schedules.")
@click.option("--queue", metavar="Q", help="Queue of the commands (default).")
@click.option("--labels", metavar="A,B=C", help="What their workers have to offer: gpu.")
@click.option("--group-key", metavar="K", help="What they share starts and limits by.")
@click.option("--webhook", metavar="URL", help="URL that is told when a command ends.")
@click.option(
    "--timeout", metavar="S", default="1h", show_default=True, help="Longest a command may run."
)
@json_option
@store_options
def import_command(
    file: Path,
    *,
    check: bool,
    timezone: str,
    prefix: str,
    timeout: str,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
    **given: str | None,
) -> int:
    """Make a schedule of each line of a crontab; safe to repeat.

    CRON_TZ, comments and % mean what they mean to cron, and other settings become environment
    variables; a comment "# name: x" names the schedule of the next line. The commands run through
    the built-in task type shell, which is off unless MAINSPRING_SHELL_TASKS=true is set here and
    for the workers. Lines that are wrong are reported and left out.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    options = {**given, "timeout": parse_duration(timeout, "timeout")}
    # Refused before the first line rather than for each.
    checked_options(options)
    return import_crontab(
        settings,
        file,
        check_only=check,
        timezone=timezone,
        prefix=prefix,
        options=options,
        as_json=as_json,
    )


def _one(
    work: Callable[[ScheduleVerbs], Awaitable[Schedule]],
    *,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    schedule = with_installation(settings, lambda installation: work(installation.schedules))
    if as_json:
        print_json(schedule)
    else:
        print_schedule(schedule)


def _print_preview(found: Preview) -> None:
    click.echo(f"{found.normalized}  {found.timezone}: {found.description}")
    rows = (
        (f"{time.local:%a} {time.local.isoformat(sep=' ')}", f"{time.utc:%Y-%m-%d %H:%M:%SZ}")
        for time in found.next
    )
    print_table(("LOCAL", "UTC"), rows)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
