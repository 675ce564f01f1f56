"""Webhooks on their way into the store."""

from collections.abc import Collection, Sequence

import msgspec

from mainspring.domain.task import NewTask
from mainspring.domain.webhooks import Webhook


def webhook_document(tasks: Sequence[NewTask], without: Collection[int] = ()) -> str | None:
    """Return the webhooks of a batch as JSON, or None if there are none.

    `without` has the places (from 1) of those that are not wanted.
    """
    rows = [
        {"place": place, "task_id": task.id, **msgspec.structs.asdict(task.webhook)}
        for place, task in enumerate(tasks, 1)
        if task.webhook is not None and place not in without
    ]
    return msgspec.json.encode(rows).decode() if rows else None


def webhook_of(text: str | None) -> Webhook | None:
    """Read the webhook of the runs of a schedule."""
    return None if text is None else msgspec.json.decode(text, type=Webhook)
