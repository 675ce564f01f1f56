"""A worker with real runner processes on a store in this process."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import structlog

from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.registry import Registry
from mainspring.domain.retry import Backoff, BackoffKind
from mainspring.domain.status import LIVE
from mainspring.domain.task import NewTask, Task
from mainspring.ports.locks import Locks
from mainspring.ports.store import Store
from mainspring.worker.agent import Agent
from mainspring.worker.options import WorkerOptions

SAMPLE_APP = Path(__file__).with_name("sample_app.py")
RUNNER = (sys.executable, str(SAMPLE_APP))
SOON = Backoff(BackoffKind.FIXED, 0.05)
PATIENCE = 20.0


class Bench:
    """Submits, waits and looks."""

    def __init__(self, store: Store, registry: Registry, tmp_path: Path) -> None:
        self.store = store
        self.registry = registry
        self.locks: Locks | None = None
        self.log = str(tmp_path / "log")
        self.agents: list[tuple[Agent, asyncio.Task[None]]] = []
        self._ids = SystemIds()
        self._rescuer: asyncio.Task[None] | None = None

    def start(self, **options: Any) -> Agent:
        """Start a worker."""
        agent = Agent(
            self.store,
            SystemClock(),
            SystemChance(),
            registry=self.registry,
            worker_id=self._ids.worker_id(),
            options=WorkerOptions(**options),
            runner_command=RUNNER,
            log=structlog.get_logger(),
            locks=self.locks,
        )
        self.agents.append((agent, asyncio.create_task(agent.run())))
        return agent

    async def close(self) -> None:
        """Stop everything at once."""
        if self._rescuer is not None:
            self._rescuer.cancel()
        for agent, running in self.agents:
            await asyncio.wait_for(agent.drain(0), PATIENCE)
            await running
        await self.store.close()

    def rescue_expired(self) -> None:
        """Take expired leases back all the time, as a scheduler does."""

        async def rescue() -> None:
            while True:
                await self.store.rescue(100)
                await asyncio.sleep(0.05)

        self._rescuer = asyncio.create_task(rescue())

    async def submit(self, task_type: str, payload: Any = None, **options: Any) -> UUID:
        """Submit one task; retries are quick unless said otherwise."""
        (task_id,) = await self.submit_many([(task_type, payload or {})], **options)
        return task_id

    async def submit_many(self, tasks: Sequence[tuple[str, Any]], **options: Any) -> list[UUID]:
        """Submit tasks, all with the same options."""
        made = [
            NewTask(
                id=self._ids.task_id(),
                task_type=task_type,
                payload=msgspec.json.encode(payload).decode(),
                **{"backoff": SOON, **options},
            )
            for task_type, payload in tasks
        ]
        await self.store.submit(made)
        return [task.id for task in made]

    async def get(self, task_id: UUID) -> Task:
        """Return a task as people see it."""
        task = await self.store.get(task_id)
        assert task is not None
        return task

    async def ended(self, *ids: UUID, seconds: float = PATIENCE) -> list[Task]:
        """Wait until tasks are in a terminal state and return them."""

        async def are_done() -> bool:
            statuses = await self.store.statuses(ids)
            return LIVE.isdisjoint(statuses.values())

        await until(are_done, seconds)
        return [await self.get(task_id) for task_id in ids]

    def lines(self) -> list[str]:
        """Return what handlers noted, without their process ids."""
        return [line.rpartition(" ")[0] for line in self._noted()]

    def pids(self) -> set[int]:
        """Return the processes that handlers ran in."""
        return {int(line.rpartition(" ")[2]) for line in self._noted()}

    def count(self, text: str) -> int:
        """Return how many lines begin with a text."""
        return sum(line.startswith(text) for line in self.lines())

    async def noted(self, text: str, count: int = 1, seconds: float = PATIENCE) -> None:
        """Wait until handlers have noted so many lines that begin with a text."""
        await until(lambda: self.count(text) >= count, seconds)

    def _noted(self) -> list[str]:
        path = Path(self.log)
        return path.read_text().splitlines() if path.exists() else []


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; fails when it does not in time."""
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if asyncio.iscoroutine(holds):
                holds = await holds
            if holds:
                return
            await asyncio.sleep(0.01)
