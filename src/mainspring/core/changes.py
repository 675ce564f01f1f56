"""Telling many watchers that their tasks changed, with one query for all of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from uuid import UUID

from mainspring.domain.errors import MainspringError
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import Task
from mainspring.ports.clock import Clock
from mainspring.ports.store import Place, TaskReader

PAUSE_SECONDS: Final = 0.25
_SECONDS_PER_TASK: Final = 0.0002
"""Ten thousand watched tasks are looked at every two seconds."""

_BATCH_TASKS: Final = 2000


_Mark = tuple[TaskStatus, str | None, int, int]


class Watcher:
    """One who watches a task. It is told that something changed, not what: whoever is slow misses
    nothing and nothing piles up.
    """

    def __init__(self, task_id: UUID, changed: asyncio.Event) -> None:
        self.task_id = task_id
        self.changed = changed
        self.mark: _Mark | None = None

    def saw(self, task: Task) -> None:
        """Say what it knows, so that it is told of nothing that it has read itself."""
        self.mark = (task.status, task.worker_id, task.fencing_token, task.attempt_count)


class Changes:
    """Watches the tasks that someone watches, for one event loop."""

    def __init__(self, reader: TaskReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._watchers: dict[UUID, set[Watcher]] = {}
        self._looker: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        """How many tasks are watched."""
        return len(self._watchers)

    @contextmanager
    def watch(self, task_id: UUID, changed: asyncio.Event | None = None) -> Iterator[Watcher]:
        """Watch a task for the time of the block; the watcher is told at once to look first.

        `changed` is what tells it, if it waits for something else with the same event.
        """
        watcher = Watcher(task_id, changed or asyncio.Event())
        watcher.changed.set()
        self._watchers.setdefault(task_id, set()).add(watcher)
        if self._looker is None or self._looker.done():
            self._looker = asyncio.create_task(self._look(), name="mainspring-changes")
        try:
            yield watcher
        finally:
            others = self._watchers.get(task_id, set())
            others.discard(watcher)
            if not others:
                self._watchers.pop(task_id, None)

    async def close(self) -> None:
        """Stop looking."""
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.wait([self._looker])

    async def _look(self) -> None:
        while self._watchers:
            await self._clock.sleep(max(PAUSE_SECONDS, _SECONDS_PER_TASK * len(self._watchers)))
            ids = list(self._watchers)
            for at in range(0, len(ids), _BATCH_TASKS):
                with suppress(MainspringError):
                    self._tell(await self._reader.places(ids[at : at + _BATCH_TASKS]))

    def _tell(self, places: dict[UUID, Place]) -> None:
        for task_id, place in places.items():
            mark = (place.status, place.worker_id, place.fencing_token, place.attempt_count)
            for watcher in self._watchers.get(task_id, ()):
                if watcher.mark != mark:
                    watcher.mark = mark
                    watcher.changed.set()
