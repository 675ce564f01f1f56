"""Submitting a task from the command line: what is shown of it, and waiting for its end."""

from typing import Final
from uuid import UUID

import click

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.output import (
    escaped,
    note,
    print_json,
    shortened,
)
from mainspring.core.installation import Installation
from mainspring.domain.errors import AccessDenied, WaitTimedOut
from mainspring.domain.placement import base_of, can_take, labels_of
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import NewTask, Task

_SHOWN: Final = 200
"""Characters of a result that are shown in passing."""


async def submit_and_see(
    installation: Installation,
    built: NewTask,
    *,
    do_wait: bool,
    patience: float | None,
    as_json: bool,
) -> int:
    """Store a task, show it, wait for its end if that is wanted, and return the exit status."""
    stored = await installation.submissions.submit(built)
    if not stored.is_new and built.unique_key is not None:
        note(f"a task with the unique key {built.unique_key!r} is live; this is that one")
    elif not stored.is_new:
        note(f"key {built.key!r} was used before; this is the task of that time")
    if not as_json:
        click.echo(str(stored.id))
    await _note_unserved(installation, built)
    try:
        return await _see(
            installation, stored.id, do_wait=do_wait, patience=patience, as_json=as_json
        )
    except AccessDenied:
        note(f"the task is stored as {stored.id}; looking at it is what is refused")
        raise


async def _see(
    installation: Installation,
    task_id: UUID,
    *,
    do_wait: bool,
    patience: float | None,
    as_json: bool,
) -> int:
    """Show a task that was submitted, and wait for its end if that is wanted."""
    status: TaskStatus | None = None
    if do_wait:
        try:
            status = await installation.waiting.wait(task_id, patience)
        except WaitTimedOut:
            if as_json:
                print_json(await installation.lifecycle.get(task_id))
            raise
    task = await installation.lifecycle.get(task_id) if as_json or do_wait else None
    if task is not None and as_json:
        print_json(task)
    if task is None or status is None:
        return EXIT_DONE
    if status is TaskStatus.COMPLETED:
        if not as_json:
            note(f"completed{_result(task)}")
        return EXIT_DONE
    why = escaped(task.last_error or task.reason or "no reason")
    note(f"task {task.task_id} is {task.status}: {why}")
    return EXIT_FAILED


async def _note_unserved(installation: Installation, task: NewTask) -> None:
    """A misspelt type or label is no error, a worker for it may come later; but it should not
    surprise.
    """
    task_type = task.task_type
    try:
        workers = await installation.lifecycle.workers()
    except AccessDenied:
        # A key may be for submitting alone.
        return
    if not workers:
        note("no worker is alive; the task waits until one is")
    elif not any(task_type in worker.task_types for worker in workers):
        known = ", ".join(sorted({name for worker in workers for name in worker.task_types}))
        note(f"no worker has a handler for {task_type!r}, so the task waits; they have: {known}")
    elif not any(can_take(worker.labels, worker.queues, task.queue) for worker in workers):
        needed = ",".join(labels_of(task.queue)) or "no labels"
        note(
            f"no worker takes tasks of queue {base_of(task.queue)!r} with {needed}; the task waits"
        )


def _result(task: Task) -> str:
    return (
        ""
        if task.result is None
        else f": {shortened(escaped(bytes(task.result).decode()), _SHOWN)}"
    )
