"""`mainspring tasks`: submit, look at, cancel and move tasks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import click

from mainspring.cli.apps import registry_of
from mainspring.cli.exits import EXIT_CONFLICT, EXIT_DONE
from mainspring.cli.inputs import as_task_id, as_task_ids, parse_duration, parse_since, read_payload
from mainspring.cli.installations import with_installation
from mainspring.cli.options import app_option, json_option, settings_of, store_options
from mainspring.cli.output import (
    print_json,
    print_table,
    print_task,
    when,
)
from mainspring.cli.task_import import import_tasks
from mainspring.cli.task_submit import submit_and_see
from mainspring.cli.task_watch import watch_tasks
from mainspring.core.installation import Installation
from mainspring.core.options import TaskOptions, checked_options
from mainspring.core.submission import build_task, complete_options
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, Task
from mainspring.domain.values import check_key, check_name, parse_instant
from mainspring.ports.store import TaskFilter
from mainspring.wiring.store import system_ids

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def tasks() -> None:
    """Submit, look at, cancel and move tasks."""


def _task_options(command: F) -> F:
    for option in (
        click.option("--labels", metavar="A,B=C", help="What its worker has to offer: gpu."),
        click.option("--webhook", metavar="URL", help="URL that is told when the task ends."),
        click.option(
            "--unique-key",
            metavar="K",
            help="While a task with it is live, that one is answered and none is made.",
        ),
        click.option(
            "--group-key",
            metavar="K",
            help="What it shares starts and limits by with other tasks of its queue.",
        ),
        click.option("--key", help="Idempotency key: the same task twice under it makes one."),
        click.option("--backoff", metavar="KIND", help="exponential, linear or fixed."),
        click.option("--max-retries", type=int, help="Further attempts after a failure (3)."),
        click.option("--timeout", metavar="S", help="Longest an attempt may run (300s)."),
        click.option("--queue", metavar="Q", help="Queue to wait in (default)."),
        click.option("--priority", type=int, help="0, most urgent, to 10 (5)."),
        click.option("--in", "delay", metavar="90s", help="Run after this: 90s, 5m, 2h, 1d."),
        click.option("--at", metavar="ISO8601", help="Run at: 2026-05-12T15:00:00Z."),
        click.option("--payload", metavar="JSON|@FILE|-", help="The handler's parameters."),
    ):
        command = option(command)
    return command


def _chosen(given: Mapping[str, Any]) -> TaskOptions:
    """Turn the words of the command line into checked options."""
    chosen = {
        name: given[name]
        for name in (
            "at",
            "queue",
            "priority",
            "max_retries",
            "backoff",
            "key",
            "group_key",
            "unique_key",
            "labels",
            "webhook",
        )
    }
    for name in ("delay", "timeout"):
        text = given[name]
        chosen[name] = None if text is None else parse_duration(text, name)
    return checked_options(chosen)


@tasks.command()
@click.argument("task_type", metavar="TYPE")
@_task_options
@app_option
@click.option("--wait", "do_wait", is_flag=True, help="Wait until the task has ended.")
@click.option(
    "--wait-timeout",
    metavar="S",
    help="With --wait: longest to wait (default: --timeout if given, else for ever).",
)
@json_option
@store_options
def submit(
    task_type: str,
    *,
    payload: str | None,
    app: str | None,
    do_wait: bool,
    wait_timeout: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
    **given: Any,
) -> int:
    """Submit a task and print its id. It is on disk when this returns.

    Priority, timeout, retries and queue that the handler's decorator names are known in its app
    only: without --app the defaults in brackets apply.

    With --wait the exit status is 0 if the task completed and 1 if it ended otherwise, or did not
    end in time.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    registry = registry_of(app)
    definition = None if registry is None else registry.get(task_type)
    options = complete_options(_chosen(given), definition)
    payload_value = read_payload(payload) or {}
    built = build_task(system_ids(), task_type, payload_value, options, definition)
    patience = options.timeout if given["timeout"] is not None else None
    if wait_timeout is not None:
        patience = parse_duration(wait_timeout, "wait_timeout")

    async def work(installation: Installation) -> int:
        return await submit_and_see(
            installation, built, do_wait=do_wait, patience=patience, as_json=as_json
        )

    return with_installation(settings, work)


@tasks.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--check", is_flag=True, help="Check every line and store nothing.")
@app_option
@json_option
@store_options
def import_command(
    file: Path,
    *,
    check: bool,
    app: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Submit a task for each line of FILE; safe to repeat after an interruption.

    A line is a JSON object: {"task_type": ..., "payload": {...}} and any of scheduled_at (at),
    delay, priority, queue, timeout, max_retries, retry_backoff (backoff), group_key, and key or
    unique_key. A line without either gets a key from the file's content and its number, so that
    importing the same file again adds nothing. Lines that are wrong are reported and left out.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    return import_tasks(settings, file, registry_of(app), check_only=check, as_json=as_json)


@tasks.command()
@click.argument("task_id", metavar="ID", callback=as_task_id)
@json_option
@store_options
def get(task_id: UUID, *, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Show one task with its attempts."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    task = with_installation(settings, lambda installation: installation.lifecycle.get(task_id))
    if as_json:
        print_json(task)
    else:
        print_task(task)


@tasks.command("list")
@click.option(
    "--status",
    type=click.Choice([*map(str, TaskStatus), "ready"]),
    help="Only this status; ready means waiting and due.",
)
@click.option("--type", "task_type", metavar="T", help="Only this task type.")
@click.option("--queue", metavar="Q", help="Only this queue.")
@click.option("--schedule", metavar="NAME", help="Only what this schedule made.")
@click.option("--group-key", metavar="K", help="Only what has this group key.")
@click.option("--since", metavar="T", help="Created since a time, or so long ago: 2h.")
@click.option("--until", metavar="T", help="Created before a time, or so long ago: 1h.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@json_option
@store_options
def list_command(
    *,
    status: str | None,
    task_type: str | None,
    queue: str | None,
    schedule: str | None,
    group_key: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """List tasks, newest first."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    which = TaskFilter(
        status=None if status in {None, "ready"} else TaskStatus(status or ""),
        ready=True if status == "ready" else None,
        task_type=None if task_type is None else check_name(task_type, "type"),
        queue=None if queue is None else check_name(queue, "queue"),
        schedule=None if schedule is None else check_name(schedule, "schedule"),
        group_key=None if group_key is None else check_key(group_key, "group_key", "a group key"),
        since=None if since is None else parse_since(since, "since"),
        until=None if until is None else parse_since(until, "until"),
    )

    async def work(installation: Installation) -> None:
        found: list[Task] = []
        async for task in installation.lifecycle.scan(which, limit):
            if as_json:
                print_json(task)
            else:
                found.append(task)
        if not as_json:
            print_tasks(found)

    with_installation(settings, work)


def print_tasks(found: list[Task]) -> None:
    """Write tasks as a table."""
    print_table(
        ("ID", "TYPE", "STATUS", "PRIORITY", "QUEUE", "SCHEDULED", "ATTEMPTS", "LAST ERROR"),
        (
            (
                task.task_id,
                task.task_type,
                task.placement or ("held" if task.held else "ready" if task.ready else task.status),
                task.priority,
                task.queue,
                when(task.scheduled_at),
                task.attempt_count,
                task.last_error or "",
            )
            for task in found
        ),
    )


@tasks.command()
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True, callback=as_task_ids)
@click.option("--reason", metavar="TEXT", help="Why; kept with the task.")
@json_option
@store_options
def cancel(
    task_ids: tuple[UUID, ...],
    *,
    reason: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Cancel tasks. A waiting one never starts; the handler of a running one is told.

    Exit status 4 if one of them does not exist or has ended.
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    states = with_installation(
        settings, lambda installation: installation.lifecycle.cancel(task_ids, reason)
    )
    for task_id, state in zip(task_ids, states, strict=True):
        if as_json:
            print_json({"task_id": task_id, "status": state})
        else:
            click.echo(f"{task_id} {state}")
    missed = {CancelState.NOT_FOUND, CancelState.FINISHED}.intersection(states)
    return EXIT_CONFLICT if missed else EXIT_DONE


@tasks.command()
@click.argument("task_id", metavar="ID", callback=as_task_id)
@click.option("--at", metavar="ISO8601", required=True, help="The new time.")
@json_option
@store_options
def reschedule(
    task_id: UUID, *, at: str, as_json: bool, database_url: str | None, data_dir: Path | None
) -> None:
    """Move a waiting task to another time."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    moment = parse_instant(at, "at")

    async def work(installation: Installation) -> Task:
        await installation.lifecycle.reschedule(task_id, moment)
        return await installation.lifecycle.get(task_id)

    _print_moved(with_installation(settings, work), as_json=as_json)


@tasks.command("run-now")
@click.argument("task_id", metavar="ID", callback=as_task_id)
@json_option
@store_options
def run_now(
    task_id: UUID, *, as_json: bool, database_url: str | None, data_dir: Path | None
) -> None:
    """Let a waiting task run now."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)

    async def work(installation: Installation) -> Task:
        await installation.lifecycle.reschedule(task_id, None)
        return await installation.lifecycle.get(task_id)

    _print_moved(with_installation(settings, work), as_json=as_json)


def _print_moved(task: Task, *, as_json: bool) -> None:
    if as_json:
        print_json(task)
    else:
        click.echo(f"{task.task_id} runs at {when(task.scheduled_at)}")


@tasks.command()
@click.argument("task_id", metavar="[ID]", required=False, callback=as_task_id)
@click.option("--interval", metavar="S", default="1s", show_default=True, help="Look this often.")
@json_option
@store_options
def watch(
    task_id: UUID | None,
    *,
    interval: str,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Show changes as they happen: of one task until it ends, or of the newest until Ctrl-C."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    pause = max(0.1, parse_duration(interval, "interval"))
    return watch_tasks(settings, task_id, pause_seconds=pause, as_json=as_json)
