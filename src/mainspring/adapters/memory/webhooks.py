"""Deliveries of webhooks, as the memory store makes them."""

from datetime import datetime

from mainspring.adapters.memory.row import Row
from mainspring.domain.namespaces import plain_queue
from mainspring.domain.status import TaskStatus
from mainspring.domain.webhooks import (
    DELIVERY_BACKOFF,
    DELIVERY_PRIORITY,
    DELIVERY_RETRIES,
    DELIVERY_TIMEOUT_SECONDS,
    DELIVERY_TYPE,
    Ending,
    Event,
    Webhook,
    delivery_id,
    delivery_payload,
    instant_text,
)

_TOLD_ERROR = frozenset({Event.FAILED, Event.DISCARDED})
_TOLD_REASON = frozenset({Event.CANCELLED, Event.DISCARDED})


def delivery_of(row: Row, webhook: Webhook, now: datetime) -> Row | None:
    """Return the task that tells a webhook of the end of `row`; None: it is not to be told."""
    event = Event(row.status.value)
    if event not in webhook.events:
        return None
    ending = Ending(
        event=event,
        task_id=row.id,
        task_type=row.task_type,
        queue=plain_queue(row.queue).partition("@")[0],
        attempt_count=row.attempt_count,
        ended_at=instant_text(now),
        error=row.last_error if event in _TOLD_ERROR else None,
        reason=row.reason if event in _TOLD_REASON else None,
    )
    return Row(
        id=delivery_id(row.id, row.fencing_token, event, now),
        task_type=DELIVERY_TYPE,
        payload=delivery_payload(webhook, ending),
        queue=webhook.queue,
        priority=DELIVERY_PRIORITY,
        scheduled_at=now,
        timeout_seconds=DELIVERY_TIMEOUT_SECONDS,
        max_retries=DELIVERY_RETRIES,
        backoff=DELIVERY_BACKOFF,
        key=None,
        created_at=now,
        status=TaskStatus.PENDING,
    )
