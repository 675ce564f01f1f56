"""A schedule as people see it."""

from datetime import datetime
from typing import Any, Final

import msgspec

from mainspring.core.planning import spec_of
from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import base_of, labels_of
from mainspring.domain.schedule import (
    ScheduleKind,
    ScheduleSpec,
    ScheduleStatus,
    SkipReason,
)
from mainspring.domain.webhooks import Event, Webhook
from mainspring.ports.schedules import StoredSchedule

_SKIPPED: Final = "skipped:"
_MISSED: Final = frozenset(
    {
        SkipReason.MISSED,
        SkipReason.COALESCED,
        SkipReason.OVER_LIMIT,
        SkipReason.OUTSIDE_WINDOW,
        SkipReason.START_DEADLINE,
    }
)


class RunWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told when a run of a schedule ends, and of which ends."""

    url: str
    events: tuple[Event, ...]
    sign: str | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it was when it was read."""

    name: str
    task_type: str
    payload: Any
    kind: str
    """cron, interval or one_off; `unreadable` if what is stored cannot be read."""

    cron_expression: str | None
    description: str
    """A sentence."""

    timezone: str
    status: ScheduleStatus
    note: str
    next_at: datetime | None
    """The next nominal time; None when there is none. A paused schedule does not fire at it."""

    last_at: datetime | None
    """The nominal time before that."""

    runs: int
    """Runs made, without those that a person asked for."""

    unfinished: int
    """Runs that are live."""

    waiting: tuple[datetime, ...]
    """Nominal times that wait for a run to end."""

    missed: int
    """Nominal times that did not run because their time had passed; they are in `skipped`, too."""

    late: int
    """Runs that were made later than the tolerance of the misfire policy."""

    skipped: dict[str, int]
    """Nominal times that did not run, by reason."""

    consecutive_failures: int
    problem: str
    """Why it could not be planned the last time; empty when it was."""

    queue: str
    labels: tuple[str, ...]
    group_key: str | None = None
    unique_key: str | None = None
    webhook: RunWebhook | None = None
    priority: int
    timeout: float
    max_retries: int
    retry_backoff: str
    spec: dict[str, Any]
    """The timetable and its policies in full."""

    version: int
    """Rises when the timetable changes."""

    created_at: datetime | None
    updated_at: datetime | None


def schedule_view(stored: StoredSchedule) -> Schedule:
    """Return a stored schedule as people see it; one that cannot be read is still shown."""
    skipped = {
        name.removeprefix(_SKIPPED): count
        for name, count in sorted(stored.counts.items())
        if name.startswith(_SKIPPED)
    }
    kind, cron, description = _words(stored.spec)
    template = stored.template
    return Schedule(
        name=stored.name,
        task_type=template.task_type,
        payload=msgspec.json.decode(template.payload),
        kind=kind,
        cron_expression=cron,
        description=description,
        timezone=stored.timezone,
        status=stored.status,
        note=stored.note,
        next_at=stored.next_nominal,
        last_at=stored.last_nominal,
        runs=stored.runs,
        unfinished=stored.unfinished,
        waiting=stored.buffered,
        missed=sum(count for name, count in skipped.items() if name in _MISSED),
        late=stored.counts.get("late", 0),
        skipped=skipped,
        consecutive_failures=stored.consecutive_failures,
        problem=stored.problem,
        queue=base_of(template.queue),
        labels=labels_of(template.queue),
        group_key=template.group_key,
        unique_key=template.unique_key,
        webhook=None if template.webhook is None else _webhook(template.webhook),
        priority=template.priority,
        timeout=template.timeout_seconds,
        max_retries=template.max_retries,
        retry_backoff=template.backoff.kind,
        spec=msgspec.json.decode(stored.spec),
        version=stored.version,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def _webhook(webhook: Webhook) -> RunWebhook:
    return RunWebhook(url=webhook.url, events=webhook.events, sign=webhook.sign)


def _words(text: str) -> tuple[str, str | None, str]:
    try:
        spec = spec_of(text)
    except InvalidValue:
        return "unreadable", None, ""
    if spec.kind is ScheduleKind.CRON:
        return spec.kind.value, "; ".join(spec.crons), _description(spec)
    return spec.kind.value, None, _description(spec)


def _description(spec: ScheduleSpec) -> str:
    if spec.every is not None:
        return f"every {spec.every}"
    if spec.at is not None:
        return f"once at {spec.at.isoformat()}"
    return "; ".join(expression.describe() for expression in spec.expressions)
