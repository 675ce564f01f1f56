"""`mainspring dead-letters`: the tasks that failed for good."""

from pathlib import Path
from uuid import UUID

import click

from mainspring.cli.apps import registry_of
from mainspring.cli.inputs import as_task_id, as_task_ids, read_payload
from mainspring.cli.installations import with_installation
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import escaped, note, print_json, print_table, print_task, when
from mainspring.core.installation import Installation
from mainspring.core.submission import encode_payload
from mainspring.domain.errors import InvalidValue, NotADeadLetter
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.domain.values import check_name
from mainspring.ports.store import DeadLetterFilter, TaskFilter


@click.group("dead-letters")
def dead_letters() -> None:
    """Tasks that failed for good: look at them, run them again, or close them."""


@dead_letters.command("list")
@click.option("--type", "task_type", metavar="T", help="Only this task type.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@json_option
@store_options
def list_command(
    *,
    task_type: str | None,
    limit: int,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """List dead letters, newest first."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    which = TaskFilter(
        status=TaskStatus.FAILED,
        task_type=None if task_type is None else check_name(task_type, "type"),
    )

    async def work(installation: Installation) -> list[Task]:
        return [task async for task in installation.lifecycle.scan(which, limit)]

    found = with_installation(settings, work)
    if as_json:
        for task in found:
            print_json(task)
        return
    print_table(
        ("ID", "TYPE", "FAILED", "ATTEMPTS", "ERROR"),
        (
            (
                task.task_id,
                task.task_type,
                when(task.completed_at),
                task.attempt_count,
                task.last_error or "",
            )
            for task in found
        ),
    )


@dead_letters.command()
@click.argument("task_id", metavar="ID", callback=as_task_id)
@json_option
@store_options
def get(task_id: UUID, *, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Show a dead letter: payload, error, stack trace and every attempt."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    task = with_installation(settings, lambda installation: installation.lifecycle.get(task_id))
    if task.status is not TaskStatus.FAILED:
        raise NotADeadLetter(
            f"task {task_id} is {task.status}, so it is not among the dead letters"
        )
    if as_json:
        print_json(task)
        return
    print_task(task)
    for attempt in task.attempts:
        for line in attempt.traceback.splitlines():
            click.echo(f"    {escaped(line)}")


@dead_letters.command()
@click.argument("task_ids", metavar="[ID...]", nargs=-1, callback=as_task_ids)
@click.option("--all", "take_all", is_flag=True, help="Every dead letter.")
@click.option("--type", "task_type", metavar="T", help="Every dead letter of this task type.")
@click.option("--payload", metavar="JSON|@FILE|-", help="A corrected payload.")
@click.option(
    "--app", metavar="MODULE:APP", help="Check the payload against the handlers in this app."
)
@json_option
@store_options
def replay(
    task_ids: tuple[UUID, ...],
    *,
    take_all: bool,
    task_type: str | None,
    payload: str | None,
    app: str | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Run dead letters again, their attempts counted from zero."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    which = _which(task_ids, task_type, take_all=take_all)
    corrected = read_payload(payload)
    registry = registry_of(app)
    text = None if corrected is None else encode_payload(corrected)

    async def work(installation: Installation) -> list[UUID]:
        if corrected is not None and registry is not None:
            for kind in await _types(installation, which):
                encode_payload(corrected, registry.get(kind))
        return await installation.lifecycle.replay(which, text)

    done = with_installation(settings, work)
    _print_ids(done, "pending", "replayed", as_json=as_json)


@dead_letters.command()
@click.argument("task_ids", metavar="[ID...]", nargs=-1, callback=as_task_ids)
@click.option("--all", "take_all", is_flag=True, help="Every dead letter.")
@click.option("--type", "task_type", metavar="T", help="Every dead letter of this task type.")
@click.option("--reason", metavar="TEXT", required=True, help="Why; kept with the task.")
@json_option
@store_options
def discard(
    task_ids: tuple[UUID, ...],
    *,
    take_all: bool,
    task_type: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Close dead letters for good, with a reason."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    which = _which(task_ids, task_type, take_all=take_all)
    done = with_installation(
        settings, lambda installation: installation.lifecycle.discard(which, reason)
    )
    _print_ids(done, "discarded", "discarded", as_json=as_json)


async def _types(installation: Installation, which: DeadLetterFilter) -> set[str]:
    """Return the task types of the dead letters that are meant."""
    if which.task_type is not None:
        return {which.task_type}
    if which.ids is not None:
        return {(await installation.lifecycle.get(one)).task_type for one in which.ids}
    failed = TaskFilter(status=TaskStatus.FAILED)
    return {task.task_type async for task in installation.lifecycle.scan(failed)}


def _which(
    task_ids: tuple[UUID, ...], task_type: str | None, *, take_all: bool
) -> DeadLetterFilter:
    if [bool(task_ids), take_all, task_type is not None].count(True) != 1:
        message = "name the dead letters by ID, or give --type T, or give --all; one of the three"
        raise InvalidValue(message, field="task_ids")
    return DeadLetterFilter(
        ids=task_ids or None,
        task_type=None if task_type is None else check_name(task_type, "type"),
    )


def _print_ids(done: list[UUID], status: str, what: str, *, as_json: bool) -> None:
    for task_id in done:
        if as_json:
            print_json({"task_id": task_id, "status": status})
        else:
            click.echo(str(task_id))
    if not as_json:
        note(f"{len(done)} {what}")
