"""A whole installation in one process and in virtual time, built from a seed."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

from mainspring.adapters.memory.store import MemoryStore
from mainspring.core.service import Service
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.domain.task import Lease
from mainspring.scheduler.janitor import Janitor, Keep
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.rescuer import Rescuer
from mainspring.scheduler.service import SchedulerService
from simulation.audit import DONE, GROUPED, Audit, AuditedTables
from simulation.client import TASK_TYPES, Client
from simulation.network import Connection, FaultyHooks, Process, StoreClock, Weather
from simulation.worker import LEASE_SECONDS, Act, Worker, random_act

LOAD_SECONDS = 30.0
RESCUE_SECONDS = 2.0
PATIENCE_SECONDS = 600.0
STRAY_SECONDS = 15.0
CALM_SLOTS = 30


class World:
    """The installation, and what befalls it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.is_calm = seed % 5 == 0
        self.limit_seconds = self.chance.choice((1800.0, 20.0, 5.0))
        self.audit = Audit(self.limit_seconds)
        self.store = MemoryStore(
            StoreClock(),
            hooks=FaultyHooks(),
            limit_seconds=self.limit_seconds,
            tables=partial(AuditedTables, self.audit),
        )
        self.weather = Weather(self._fork())
        self.workers: list[Worker] = []
        self.clients: list[Client] = []
        self.schedulers: list[Process] = []
        self.told_cancelling: dict[UUID, float] = {}
        self.told_workers: dict[UUID, float] = {}
        self._acts: dict[tuple[UUID, int], Act] = {}
        self.faults: list[tuple[str, BaseException]] = []
        self._names = 0
        self._background: list[asyncio.Task[None]] = []

    def act(self, lease: Lease) -> Act:
        """`worker.Plot`: the same attempt always goes the same way."""
        key = (lease.id, lease.fencing_token)
        if key not in self._acts:
            chance = random.Random(self.seed ^ lease.id.int ^ lease.fencing_token << 64)
            is_poison = not self.is_calm and lease.id.int % 31 == 0
            self._acts[key] = random_act(chance, poison=is_poison)
        return self._acts[key]

    def crash(self, worker: Worker) -> None:
        """`worker.Plot`: a handler kills its worker; another one starts after a while."""
        self.kill_worker(worker, self.chance.uniform(0.1, 3.0))

    async def run(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._lost)
        for _ in range(self.chance.randrange(2, 5)):
            self.add_worker()
        for _ in range(2):
            self.add_scheduler()
        for _ in range(self.chance.randrange(1, 4)):
            process = self._process("client")
            client = Client(
                process,
                self._connect(process),
                self.audit,
                self.told_cancelling,
                may_pause=not self.is_calm,
            )
            self.clients.append(client)
        if not self.is_calm:
            await self.limit()
        until = asyncio.get_running_loop().time() + LOAD_SECONDS
        loads = [client.process.start(client.run(until)) for client in self.clients]
        if not self.is_calm:
            await self.disturb(until)
        await asyncio.gather(*loads)
        await self.heal()
        await self.settle_down()
        await self.close()

    async def limit(self) -> None:
        """Limit what of a queue runs at once, as a whole and by group."""
        group = Limit(concurrency=self.chance.randrange(1, 3))
        whole = Limit(concurrency=self.chance.randrange(2, 4))
        await self.store.set_limits(GROUPED, whole=whole, group=group)
        self.audit.places.limits[GROUPED] = QueueLimits(queue=whole, group=group)

    async def disturb(self, until: float) -> None:
        """The nemesis: one misfortune after the other until the load ends."""
        misfortunes = (
            self.lose_worker,
            self.stop_someone,
            self.drain_worker,
            self.take_store_down,
            self.worsen_network,
            self.step_clocks,
            self.lose_scheduler,
        )
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, self.chance.uniform(0.5, 6.0)))
            self.audit.note(StoreClock().now(), "misfortune")
            self.chance.choice(misfortunes)()

    def lose_worker(self) -> None:
        self.kill_worker(self.chance.choice(self.workers), self.chance.uniform(0.0, 8.0))

    def stop_someone(self) -> None:
        processes = [worker.process for worker in self.workers] + self.schedulers
        self.chance.choice(processes).stop(self.chance.uniform(0.5, 3 * LEASE_SECONDS))

    def drain_worker(self) -> None:
        worker = self.chance.choice(self.workers)
        if not worker.is_draining:
            self._later(self._drain(worker, self.chance.uniform(0.0, 4.0)))

    async def _drain(self, worker: Worker, grace_seconds: float) -> None:
        await asyncio.wait({worker.process.start(worker.drain(grace_seconds))}, timeout=60)
        self.kill_worker(worker, 0.5)

    def take_store_down(self) -> None:
        async def down(seconds: float) -> None:
            self.weather.is_down = True
            await asyncio.sleep(seconds)
            self.weather.is_down = False

        self._later(down(self.chance.uniform(0.2, 10.0)))

    def worsen_network(self) -> None:
        async def worse(seconds: float, lost: float) -> None:
            weather = self.weather
            weather.lost, weather.twice, weather.late = lost, 0.05, 0.03
            await asyncio.sleep(seconds)
            weather.lost = weather.twice = weather.late = 0.0

        self._later(worse(self.chance.uniform(1.0, 15.0), self.chance.uniform(0.02, 0.4)))

    def step_clocks(self) -> None:
        for process in (*(worker.process for worker in self.workers), *self.schedulers):
            process.skew_seconds = self.chance.choice((0.0, -3600.0, 3600.0, 0.7))

    def lose_scheduler(self) -> None:
        if not self.schedulers:
            return
        process = self.chance.choice(self.schedulers)
        self.schedulers.remove(process)
        process.kill()
        self._later(self._after(self.chance.uniform(0.0, 10.0), self.add_scheduler))

    def kill_worker(self, worker: Worker, absence_seconds: float) -> None:
        if worker.process.is_dead:
            return
        worker.process.kill()
        self.audit.died(worker.process.name)
        self.audit.note(StoreClock().now(), "killed", worker.process.name)
        self.workers.remove(worker)
        self._later(self._after(absence_seconds, self.add_worker))
        if not self.workers:
            self.add_worker()

    def add_worker(self) -> None:
        process = self._process("worker")
        worker = Worker(
            process,
            self._connect(process),
            self.audit,
            self,
            slots=CALM_SLOTS if self.is_calm else self.chance.randrange(2, 7),
            task_types=TASK_TYPES,
            told=self.told_workers,
        )
        self.workers.append(worker)
        worker.start()

    def add_scheduler(self) -> None:
        process = self._process("scheduler")
        store = self._connect(process)
        loop = Loop(process, process)
        duties: list[Service] = [
            Rescuer(store, loop, seconds=RESCUE_SECONDS),  # type: ignore[arg-type]
            Janitor(store, loop, Keep(), seconds=10.0),  # type: ignore[arg-type]
        ]
        self.schedulers.append(process)
        process.start(SchedulerService(duties).run())

    async def heal(self) -> None:
        """Undo every misfortune; what was started to undo one still comes."""
        self.weather.lost = self.weather.twice = self.weather.late = 0.0
        for task in list(self._background):
            await task
        self.weather.is_down = False
        for queue in sorted(self.audit.paused):
            await self.store.resume(queue)
            self.audit.paused.discard(queue)

    async def settle_down(self) -> None:
        """Wait until every task has ended, for as long as can be expected of it."""
        loop = asyncio.get_running_loop()
        # A submission that was on its way when the network healed may arrive after all else ended.
        await asyncio.sleep(STRAY_SECONDS)
        until = loop.time() + PATIENCE_SECONDS
        while loop.time() < until and not self.audit.violations:
            has_ended = all(record.status in DONE for record in self.audit.records.values())
            if has_ended and not self.audit.executions:
                return
            await asyncio.sleep(1.0)

    async def close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
        for process in (*self.schedulers, *(client.process for client in self.clients)):
            process.kill()
        await asyncio.sleep(20)

    def _lost(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nobody waited for."""
        self.faults.append(("nobody", context.get("exception") or RuntimeError(str(context))))

    def _later(self, part: Coroutine[Any, Any, None]) -> None:
        self._background = [task for task in self._background if not task.done()]
        self._background.append(asyncio.create_task(part))

    async def _after(self, seconds: float, what: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        what()

    def _process(self, kind: str) -> Process:
        self._names += 1
        return Process(f"{kind}-{self._names}", self._fork(), faults=self.faults)

    def _connect(self, process: Process) -> Connection:
        return Connection(self.store, process, self.weather, self.audit)

    def _fork(self) -> random.Random:
        return random.Random(self.chance.getrandbits(64))
