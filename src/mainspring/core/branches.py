"""From the queues as they are stored, their branches apart, to the queues as people know them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from mainspring.domain.limits import Limit
from mainspring.domain.placement import Labels
from mainspring.ports.branches import BranchState, Unplaceable
from mainspring.ports.store import COUNT_MAX, QueueState


class StoredQueue(NamedTuple):
    """A queue (no labels), or a branch of it, with its counts."""

    base: str
    labels: Labels
    paused: bool
    ready: int
    scheduled: int
    running: int
    oldest_ready_seconds: float | None
    workers: int
    held: int = 0
    """Of the queue with all its branches."""

    limit: Limit = Limit()
    group_limit: Limit = Limit()


def queue_states(
    stored: Iterable[StoredQueue], unplaceable: Sequence[Unplaceable]
) -> list[QueueState]:
    """Return each queue with the sums over its branches, by name."""
    stuck = {(one.queue, one.labels): one.count for one in unplaceable}
    ordered = sorted(stored, key=lambda one: (one.base, one.labels))
    return [
        _queue_state(queue, list(parts), stuck)
        for queue, parts in groupby(ordered, key=lambda one: one.base)
    ]


def _queue_state(
    queue: str, parts: list[StoredQueue], stuck: dict[tuple[str, Labels], int]
) -> QueueState:
    ages = [part.oldest_ready_seconds for part in parts if part.oldest_ready_seconds is not None]
    return QueueState(
        queue=queue,
        paused=any(part.paused for part in parts),
        ready=min(sum(part.ready for part in parts), COUNT_MAX),
        scheduled=min(sum(part.scheduled for part in parts), COUNT_MAX),
        running=min(sum(part.running for part in parts), COUNT_MAX),
        oldest_ready_seconds=max(ages, default=None),
        held=max(part.held for part in parts),
        limit=_shown(part.limit for part in parts),
        group_limit=_shown(part.group_limit for part in parts),
        branches=tuple(
            BranchState(
                labels=part.labels,
                ready=part.ready,
                scheduled=part.scheduled,
                running=part.running,
                oldest_ready_seconds=part.oldest_ready_seconds,
                workers=part.workers,
                unplaceable=stuck.get((queue, part.labels), 0),
            )
            for part in parts
            if part.labels
        ),
    )


def _shown(limits: Iterable[Limit]) -> Limit | None:
    """A limit is of a queue, so its branches have none."""
    return next((limit for limit in limits if not limit.is_none), None)
