"""Group commit for each part of a divided store, so that one that is away holds up no other."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mainspring.core.group_commit import GroupCommit
from mainspring.domain.errors import PartitionMoving, Unavailable
from mainspring.domain.ids import partition_of
from mainspring.domain.task import NewTask, Submission
from mainspring.ports.clock import Clock
from mainspring.ports.parts import Divided
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
    """Sends each task with those of its part, and what just changes its part to the new one."""

    def __init__(
        self, commits: Sequence[GroupCommit], store: Divided, clock: Clock, timeout_seconds: float
    ) -> None:
        self._commits = tuple(commits)
        self._store = store
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    async def submit(
        self, task: NewTask, timeout: float | None = None, *, first: bool = False
    ) -> Submission:
        """Store one task."""
        until = self._clock.monotonic() + (timeout or self._timeout_seconds)
        # What is just moving would only be refused, and what travels with it as well.
        if partition_of(task.id) in self._store.lost_partitions():
            await self._store.settled([task.id], timeout or self._timeout_seconds)
        while True:
            commits = self._commits[self._store.shard_of(task.id)]
            try:
                return await commits.submit(task, timeout, first=first)
            except PartitionMoving:
                timeout = until - self._clock.monotonic()
                if timeout <= 0 or not await self._store.settled([task.id], timeout):
                    raise
                first = False

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store many tasks, those of each part together, and answer for each in order."""
        until = self._clock.monotonic() + (timeout or self._timeout_seconds)
        given: list[Submission | BaseException] = [*await self._sent(tasks, timeout, first=first)]
        while moving := [
            place for place, one in enumerate(given) if isinstance(one, PartitionMoving)
        ]:
            timeout = until - self._clock.monotonic()
            ids = [tasks[place].id for place in moving]
            if timeout <= 0 or not await self._store.settled(ids, timeout):
                break
            again = await self._sent([tasks[place] for place in moving], timeout, first=False)
            for place, answer in zip(moving, again, strict=True):
                given[place] = answer
        return given

    async def _sent(
        self, tasks: Sequence[NewTask], timeout: float | None, *, first: bool
    ) -> list[Submission | BaseException]:
        groups: dict[int, list[int]] = {}
        given: dict[int, Submission | BaseException] = {}
        for place, task in enumerate(tasks):
            try:
                groups.setdefault(self._store.shard_of(task.id), []).append(place)
            except Unavailable as error:
                given[place] = error
        answers = await asyncio.gather(
            *(
                self._commits[number].submit_many(
                    [tasks[place] for place in group], timeout, first=first
                )
                for number, group in groups.items()
            )
        )
        for group, part in zip(groups.values(), answers, strict=True):
            given |= dict(zip(group, part, strict=True))
        return [given[place] for place in range(len(tasks))]

    async def close(self) -> None:
        """Wait until everything that was accepted has been answered."""
        for commits in self._commits:
            await commits.close()


def commits_on(store: Store, clock: Clock, timeout_seconds: float) -> Commits:
    """Return what stores tasks in a store, by its parts."""
    commits = [GroupCommit(part, clock, timeout_seconds=timeout_seconds) for part in store.parts()]
    return (
        commits[0] if len(commits) == 1 else RoutedCommits(commits, store, clock, timeout_seconds)
    )
