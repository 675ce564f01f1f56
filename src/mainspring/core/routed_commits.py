"""Group commit for each part of a divided store, so that one that is away holds up no other."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from mainspring.core.group_commit import GroupCommit
from mainspring.domain.task import NewTask, Submission
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class Commits(Protocol):
    """What stores tasks in batches that form by themselves, as `GroupCommit` does."""

    async def submit(
        self, task: NewTask, timeout: float | None = None, *, first: bool = False
    ) -> Submission:
        """Store one task."""
        ...

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store many tasks; answer for each in order with what became of it, or the error."""
        ...

    async def close(self) -> None:
        """Wait until everything that was accepted has been answered."""
        ...


class RoutedCommits:
    """Sends each task with those of its part."""

    def __init__(self, commits: Sequence[GroupCommit], shard_of: Callable[[UUID], int]) -> None:
        self._commits = tuple(commits)
        self._shard_of = shard_of

    async def submit(
        self, task: NewTask, timeout: float | None = None, *, first: bool = False
    ) -> Submission:
        """Store one task."""
        return await self._commits[self._shard_of(task.id)].submit(task, timeout, first=first)

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store many tasks, those of each part together, and answer for each in order."""
        groups: dict[int, list[NewTask]] = {}
        for task in tasks:
            groups.setdefault(self._shard_of(task.id), []).append(task)
        answers = await asyncio.gather(
            *(
                self._commits[number].submit_many(group, timeout, first=first)
                for number, group in groups.items()
            )
        )
        given = {number: iter(part) for number, part in zip(groups, answers, strict=True)}
        return [next(given[self._shard_of(task.id)]) for task in tasks]

    async def close(self) -> None:
        """Wait until everything that was accepted has been answered."""
        for commits in self._commits:
            await commits.close()


def commits_on(store: Store, clock: Clock, timeout_seconds: float) -> Commits:
    """Return what stores tasks in a store, by its parts."""
    commits = [GroupCommit(part, clock, timeout_seconds=timeout_seconds) for part in store.parts()]
    return commits[0] if len(commits) == 1 else RoutedCommits(commits, store.shard_of)
