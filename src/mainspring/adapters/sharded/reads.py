"""Reads for people."""

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec

from mainspring.adapters.sharded.division import answered
from mainspring.adapters.sharded.part import ShardedPart
from mainspring.domain.cursors import cursor_before, read_cursor
from mainspring.domain.ids import partition_of
from mainspring.domain.limits import Limit, together
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.ports.branches import BranchState, Unplaceable
from mainspring.ports.store import COUNT_MAX, Backlog, Page, Place, QueueState, TaskFilter

T = TypeVar("T")
K = TypeVar("K")


class ShardedReads(ShardedPart):
    """`ports.store.TaskReader`. What cannot be asked for leaves a gap that `missing` tells of."""

    async def get(self, task_id: UUID, max_staleness: float = 0.0) -> Task | None:
        """Return a task wherever it is; raises `StoreUnavailable` when its shard is lost."""
        return await self._division.look(
            task_id, lambda store: store.get(task_id, max_staleness), lambda task: task is not None
        )

    async def page(self, which: TaskFilter, limit: int, cursor: str | None = None) -> Page:
        """Return a page of tasks, newest first by id."""
        if cursor is not None:
            read_cursor(cursor)
        pages = await self._division.wherever(lambda store: store.page(which, limit, cursor))
        is_partial = len(pages) < len(self._division.shards)
        kept = [self._kept(pages, number) for number in pages]
        return merged(kept, limit, partial=is_partial)

    def _kept(self, pages: dict[int, Page], number: int) -> Page:
        """Return the page of a shard without what the keeper of its partition has listed as well:
        while partitions move, there are rows of theirs in both.
        """
        page, owners = pages[number], self._division.map.owners
        strays = [task for task in page.tasks if owners[partition_of(task.task_id)] != number]
        if not strays:
            return page
        known = {
            task.task_id for other, one in pages.items() if other != number for task in one.tasks
        }
        twice = {task.task_id for task in strays} & known
        tasks = [task for task in page.tasks if task.task_id not in twice]
        return Page(tasks, page.cursor, page.partial)

    async def statuses(self, ids: Sequence[UUID]) -> dict[UUID, TaskStatus]:
        """Return the statuses of those of the tasks that exist in shards that answer."""
        answers = await self._division.among(
            ids, lambda store, part: store.statuses(part), _missing
        )
        found: dict[UUID, TaskStatus] = {}
        for part in answered(dict(enumerate(answers))).values():
            found |= part
        return found

    async def places(self, ids: Sequence[UUID]) -> dict[UUID, Place]:
        """Return where those of the tasks are that exist; raises when a shard cannot be asked,
        because what is left out here is taken for missing.
        """
        found: dict[UUID, Place] = {}
        answers = await self._division.among(ids, lambda store, part: store.places(part), _missing)
        for part in answers:
            if isinstance(part, BaseException):
                raise part
            found |= part
        return found

    async def queues(self) -> list[QueueState]:
        """Return every queue; what is in it is summed up."""
        answers = await self._division.wherever(lambda store: store.queues())
        groups = _grouped(answers.values(), lambda state: state.queue)
        return [_queue(states) for _, states in sorted(groups.items())]

    async def unplaceable(self) -> list[Unplaceable]:
        """Return which due tasks no live worker can take for the labels that they need."""
        answers = await self._division.wherever(lambda store: store.unplaceable())
        groups = _grouped(answers.values(), lambda one: (one.queue, one.labels))
        return [
            msgspec.structs.replace(
                ones[0],
                count=sum(one.count for one in ones),
                oldest_seconds=max(one.oldest_seconds for one in ones),
            )
            for _, ones in sorted(groups.items())
        ]

    async def unserved(self, waited_seconds: float) -> tuple[str, ...]:
        """Return the types of old ready tasks that no registered worker has a handler for."""
        answers = await self._division.wherever(lambda store: store.unserved(waited_seconds))
        return tuple(sorted({name for names in answers.values() for name in names}))

    async def dead_letter_count(self) -> int:
        """Return the number of dead letters."""
        answers = await self._division.wherever(lambda store: store.dead_letter_count())
        return min(sum(answers.values()), COUNT_MAX)

    async def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        answers = await self._division.wherever(lambda store: store.queue_names())
        return sorted({name for names in answers.values() for name in names})

    async def backlogs(self, bound: int) -> list[Backlog]:
        """Return what is due, by queue and priority."""
        answers = await self._division.wherever(lambda store: store.backlogs(bound))
        groups = _grouped(answers.values(), lambda one: (one.queue, one.priority))
        return [
            Backlog(
                *key,
                min(sum(one.ready for one in ones), bound),
                max(one.oldest_seconds for one in ones),
                min(sum(one.held for one in ones), bound),
            )
            for key, ones in sorted(groups.items())
        ]


def merged(pages: Sequence[Page], limit: int, *, partial: bool = False) -> Page:
    """Put pages that begin at the same place together into one.

    A page may be short and still have a cursor. No further down than every shard has looked is
    anything given out, or a task of the one that looked least far would come too late to be seen.
    """
    floors = [read_cursor(page.cursor) for page in pages if page.cursor is not None]
    floor = max(floors, default=None)
    tasks = [
        task
        for page in pages
        for task in page.tasks
        if floor is None or task.task_id.int >= floor.int
    ]
    tasks.sort(key=lambda task: task.task_id.int, reverse=True)
    if len(tasks) > limit:
        tasks = tasks[:limit]
        return Page(tasks, cursor_before(tasks[-1].task_id), partial)
    return Page(tasks, None if floor is None else cursor_before(floor), partial)


def _missing(found: Container[UUID], asked: Collection[UUID]) -> list[UUID]:
    return [one for one in asked if one not in found]


def _queue(states: Sequence[QueueState]) -> QueueState:
    branches = _grouped((state.branches for state in states), lambda branch: branch.labels)
    return QueueState(
        queue=states[0].queue,
        paused=any(state.paused for state in states),
        ready=_count(state.ready for state in states),
        scheduled=_count(state.scheduled for state in states),
        running=_count(state.running for state in states),
        oldest_ready_seconds=_oldest(state.oldest_ready_seconds for state in states),
        held=_count(state.held for state in states),
        limit=_whole(state.limit for state in states),
        group_limit=next((one.group_limit for one in states if one.group_limit is not None), None),
        branches=tuple(_branch(ones) for _, ones in sorted(branches.items())),
    )


def _whole(parts: Iterable[Limit | None]) -> Limit | None:
    limit = together([Limit() if part is None else part for part in parts])
    return None if limit.is_none else limit


def _branch(states: Sequence[BranchState]) -> BranchState:
    return BranchState(
        labels=states[0].labels,
        ready=_count(state.ready for state in states),
        scheduled=_count(state.scheduled for state in states),
        running=_count(state.running for state in states),
        oldest_ready_seconds=_oldest(state.oldest_ready_seconds for state in states),
        # Every worker is registered in each shard.
        workers=max(state.workers for state in states),
        unplaceable=sum(state.unplaceable for state in states),
    )


def _count(counts: Iterable[int]) -> int:
    return min(sum(counts), COUNT_MAX)


def _oldest(ages: Iterable[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)


def _grouped(answers: Iterable[Iterable[T]], key_of: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for answer in answers:
        for one in answer:
            groups.setdefault(key_of(one), []).append(one)
    return groups
