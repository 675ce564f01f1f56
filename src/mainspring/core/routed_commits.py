"""Group commit for each part of a divided store, so that one that is away holds up no other."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from mainspring.core.group_commit import GroupCommit
from mainspring.domain.errors import (
    OutcomeUnknown,
    PartitionMoving,
    StoreUnavailable,
    Unavailable,
)
from mainspring.domain.ids import partition_of
from mainspring.domain.task import NewTask, Submission
from mainspring.ports.clock import Clock
from mainspring.ports.parts import Divided
from mainspring.ports.store import Store

_LAST_SECONDS: Final = 0.01
"""What was settled in the last moment is sent once more in any case."""


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
            timeout = max(until - self._clock.monotonic(), _LAST_SECONDS)
        commits = self._commits[self._store.shard_of(task.id)]
        try:
            return await commits.submit(task, timeout, first=first)
        except (PartitionMoving, OutcomeUnknown) as error:
            (answer,) = await self._again([task], [error], until)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def submit_many(
        self, tasks: Sequence[NewTask], timeout: float | None = None, *, first: bool = False
    ) -> list[Submission | BaseException]:
        """Store many tasks, those of each part together, and answer for each in order."""
        until = self._clock.monotonic() + (timeout or self._timeout_seconds)
        return await self._again(tasks, await self._sent(tasks, timeout, first=first), until)

    async def _again(
        self, tasks: Sequence[NewTask], given: Sequence[Submission | BaseException], until: float
    ) -> list[Submission | BaseException]:
        """Send what was refused because it moves to where it is now, while there is time."""
        answers = [*given]
        while moving := [
            place for place, task in enumerate(tasks) if _may_move(task, answers[place])
        ]:
            ids = [tasks[place].id for place in moving]
            left = until - self._clock.monotonic()
            if left <= 0 or not await self._store.settled(ids, left):
                break
            left = max(until - self._clock.monotonic(), _LAST_SECONDS)
            again = await self._sent([tasks[place] for place in moving], left, first=False)
            for place, answer in zip(moving, again, strict=True):
                # What may have been stored before is not known to be nowhere by a refusal.
                if not (
                    isinstance(answers[place], OutcomeUnknown)
                    and isinstance(answer, StoreUnavailable)
                ):
                    answers[place] = answer
        return answers

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


def _may_move(task: NewTask, answer: Submission | BaseException) -> bool:
    """Return whether it is due to another part by now. What was sent before it was refused, so that
    nobody knows what became of it, can be sent again if the store looks for its key first.
    """
    has_key = task.key is not None or task.unique_key is not None
    return isinstance(answer, PartitionMoving) or (isinstance(answer, OutcomeUnknown) and has_key)


def commits_on(store: Store, clock: Clock, timeout_seconds: float) -> Commits:
    """Return what stores tasks in a store, by its parts."""
    commits = [GroupCommit(part, clock, timeout_seconds=timeout_seconds) for part in store.parts()]
    return (
        commits[0] if len(commits) == 1 else RoutedCommits(commits, store, clock, timeout_seconds)
    )
