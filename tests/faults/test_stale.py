"""Workers and schedulers that stand still, or whose messages come late, for longer than their
rights last: whatever they still send changes nothing.

`STALE_TRIES` sets how often each of four faults happens; 20 of each take about a minute.
"""

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID

import psutil
import pytest

from faults.stage import Program, Stage, eventually, stopped
from faults.timekeeping import Timekeeping
from faults.witness import SCHEDULER, WORKER, Witness
from fixtures.postgres import PostgresServer
from integration.postgres.proxy import Proxy, proxy_to
from mainspring import Mainspring

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

TRIES = int(os.environ.get("STALE_TRIES", "3"))
PATIENT_TRIES = 10 * TRIES
EACH = 1 if TRIES < 10 else 2
"""So many processes suffer each fault at the same time."""

START_SECONDS = 60.0
"""As many processes at once as this starts may take a while on a small machine."""

LEASE_SECONDS = 1.0
TTL_SECONDS = 1.0
SCHEDULES = 12
BUSY = 6 * (2 + 3 * EACH)
POINTS = (
    "tick.before_insert",
    "tick.before_insert",
    "tick.after_insert",
    "tick.after_commit",
    "elect.after_key_before_epoch",
    "elect.after_epoch",
    "renew.after_reply",
)
SHORT = {
    "lease_seconds": LEASE_SECONDS,
    "heartbeat_seconds": 0.3,
    "scheduler_ttl_seconds": TTL_SECONDS,
    "concurrency": 4,
}

WORKERS_STOOD = "workers stood still"
WORKERS_LATE = "messages of workers were late"
SCHEDULERS_STOOD = "schedulers stood still"
SCHEDULERS_LATE = "messages of schedulers were late"

LOST_LEASES = ("code=stale_lease", "a lease was lost")
LOST_SHARE = "lost partitions"

Fault = Callable[[], Awaitable[None]]


class Storm:
    """Processes that suffer, each by itself, and the count of what they suffered."""

    def __init__(self, stage: Stage, witness: Witness, tcp_url: str, chance: random.Random) -> None:
        self.stage = stage
        self.witness = witness
        self.tcp_url = tcp_url
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.workers: list[Program] = []
        self.schedulers: list[Program] = []
        self.armed: list[Program] = []
        self.stack = AsyncExitStack()
        self.is_over = False
        self.blows: list[tuple[str, Fault]] = []

    async def worker(self, name: str, url: str = "", **settings: object) -> Program:
        url = url or await self.witness.role(WORKER + name, self.tcp_url)
        worker = self.stage.start_worker(**{**SHORT, "database_url": url, **settings})
        self.workers.append(worker)
        return worker

    async def scheduler(self, url: str) -> Program:
        self.schedulers.append(self.stage.start("scheduler", **SHORT, database_url=url))
        return self.schedulers[-1]

    async def proxied(self, role: str) -> tuple[Proxy, str]:
        return await self.stack.enter_async_context(
            proxy_to(await self.witness.role(role, self.tcp_url))
        )

    async def prepare(self) -> None:
        """Start everybody, and wait until they are at work."""
        await self.worker("steady")
        await self.scheduler(await self.witness.role(SCHEDULER + "steady", self.tcp_url))
        for number in range(EACH):
            await self.prepare_workers(number)
            await self.prepare_schedulers(number)
        for worker in self.workers:
            await worker.says("worker runs", START_SECONDS)
        # Who stops itself may do so before it owns anything.
        for scheduler in self.schedulers:
            sign = "member " if scheduler in self.armed else "gained partitions"
            await scheduler.says(sign, START_SECONDS)

    async def prepare_workers(self, number: int) -> None:
        sleeper = await self.worker(f"sleeper{number}")
        # It trusts its leases for long, and finds out only from the answers that they are over.
        believer = await self.worker(f"believer{number}", lease_seconds=60, heartbeat_seconds=30)
        proxy, url = await self.proxied(f"{WORKER}late{number}")
        await self.worker("", url)
        self.blows += [
            (WORKERS_STOOD, partial(self.stop_worker, sleeper)),
            (WORKERS_STOOD, partial(self.rob, believer, f"{WORKER}believer{number}")),
            (WORKERS_LATE, partial(self.delay, proxy, LEASE_SECONDS)),
        ]

    async def prepare_schedulers(self, number: int) -> None:
        armed = await self.start_armed(number)
        proxy, url = await self.proxied(f"{SCHEDULER}late{number}")
        await self.scheduler(url)
        self.blows += [
            (SCHEDULERS_STOOD, partial(self.wake, armed)),
            (SCHEDULERS_LATE, partial(self.delay, proxy, TTL_SECONDS)),
        ]

    async def start_armed(self, number: int) -> Program:
        """Start a scheduler that stops itself at random points."""
        url = await self.witness.role(f"{SCHEDULER}armed{number}", self.tcp_url)
        points = self.chance.choices(POINTS, k=200)
        counts = [1 if one.startswith("elect") else self.chance.randrange(1, 4) for one in points]
        plan = (",".join(points), ",".join(map(str, counts)))
        command = [sys.executable, "-m", "faults.armed_scheduler", *plan, "SIGSTOP"]
        armed = self.stage.start_program(command, "armed", **SHORT, database_url=url)
        self.schedulers.append(armed)
        self.armed.append(armed)
        return armed

    async def rage(self) -> None:
        """Let everybody suffer until each fault has happened often enough."""
        await asyncio.gather(*(self.suffer(name, fault) for name, fault in self.blows))
        self.is_over = True

    async def suffer(self, name: str, fault: Fault) -> None:
        while self.counts[name] < TRIES or self.has_missed(name):
            self.counts[name] += 1
            await fault()
            await asyncio.sleep(self.chance.uniform(0.3, 0.9))

    def has_missed(self, name: str) -> bool:
        """Whether those who stood still happened to have nothing to lose each time."""
        if self.counts[name] >= PATIENT_TRIES:
            return False
        if name == WORKERS_STOOD:
            return not any(lost in one.said for one in self.workers for lost in LOST_LEASES)
        return name == SCHEDULERS_STOOD and not any(
            LOST_SHARE in one.said for one in self.schedulers
        )

    async def stop_worker(self, worker: Program) -> None:
        """The agent alone, or all of it as with a machine that is moved."""
        family = worker.family()
        victims = family[:1] if self.chance.random() < 0.5 else family
        for each in victims:
            each.suspend()
        await asyncio.sleep(self.chance.uniform(1.3, 2.2) * LEASE_SECONDS)
        for each in reversed(victims):
            if each.is_running():
                each.resume()

    async def rob(self, worker: Program, role: str) -> None:
        """Its leases end while it stands still for a moment."""
        agent = psutil.Process(worker.pid)
        agent.suspend()
        await eventually(lambda: all(stopped([agent])), "the stop of the agent")
        # What waits in its ears it would begin in good faith, as nobody has told it otherwise.
        begun = [UUID(record["task"]) for record in self.stage.events("start")]
        await self.stage.ask(
            "UPDATE mainspring.tasks t SET lease_expires_at = clock_timestamp() "
            "WHERE t.id = ANY ($2) AND t.status = 'running' "
            "AND EXISTS (SELECT FROM witness.tasks w WHERE w.task = t.id AND w.who = $1 "
            "AND w.new_token = t.fencing_token AND w.old_status <> 'running')",
            *(role, begun),
        )
        await asyncio.sleep(self.chance.uniform(0.8, 1.5))
        agent.resume()

    async def delay(self, proxy: Proxy, seconds: float) -> None:
        proxy.hold(self.chance.choice(["requests", "replies"]))
        await asyncio.sleep(self.chance.uniform(1.3, 2.2) * seconds)
        proxy.release()

    async def wake(self, scheduler: Program) -> None:
        process = psutil.Process(scheduler.pid)
        await eventually(lambda: all(stopped([process])), f"a stop; {scheduler.said}")
        await asyncio.sleep(self.chance.uniform(1.3, 2.2) * TTL_SECONDS)
        process.resume()

    async def end(self) -> None:
        await self.stack.aclose()
        self.stage.end()
        await self.witness.forget()


@pytest.fixture
async def storm(
    stage: Stage,
    database: str,
    postgres_server: PostgresServer,
    rng: random.Random,
) -> AsyncIterator[Storm]:
    witness = Witness(database)
    await witness.install()
    name = database.split("@/")[1].partition("?")[0]
    storm = Storm(stage, witness, postgres_server.tcp_dsn(name), rng)
    yield storm
    await storm.end()


@pytest.mark.timeout(120 + 6 * TRIES)
async def test_who_has_lost_its_rights_changes_nothing(
    storm: Storm, stage: Stage, app: Mainspring, database: str
) -> None:
    keeping = Timekeeping(database)
    await keeping.make(SCHEDULES)
    await storm.prepare()
    load = asyncio.create_task(keep_busy(stage, app, storm))
    await storm.rage()
    await load
    await keeping.up_to_date(15.0, await keeping.now())
    for one in storm.armed:
        one.end()
    violations = await keeping.violations()
    await keeping.close()
    for one in storm.schedulers[1:]:
        one.end()
    await stage.ask("DELETE FROM mainspring.schedules")
    await stage.settled(40.0)

    runs = await stage.ask("SELECT array_agg(task_id) FROM mainspring.ticks WHERE task_id NOTNULL")
    stage.accepted.update(map(str, runs))
    history = await stage.history()
    refused, lost = (sum(one.said.count(sign) for one in storm.workers) for sign in LOST_LEASES)
    deposed = sum(one.said.count(LOST_SHARE) for one in storm.schedulers)
    later = sum(one.said.count("knows a later epoch") for one in storm.schedulers)
    print(f"{dict(storm.counts)}; {len(history.rows)} tasks, {len(history.executions)} executions,")
    print(f"{len(runs)} ticks; endings were refused {refused} times, leases lost {lost} times,")
    print(f"shares lost {deposed} times, {later} of them told by the store;")
    print(await storm.witness.seen())
    assert violations == []
    assert await storm.witness.violations() == []
    assert history.violations() == []
    assert refused or (lost and TRIES < 10)
    assert deposed
    assert all(one.process.poll() is None for one in storm.workers)


async def keep_busy(stage: Stage, app: Mainspring, storm: Storm) -> None:
    """See to it that whoever is struck has something to lose."""
    while not storm.is_over:
        live = await stage.ask("SELECT count(*) FROM mainspring.tasks")
        for _ in range(BUSY - live):
            seconds = round(storm.chance.uniform(0.1, 0.8), 3)
            await stage.submit(app, 1, "work", seconds=seconds)
        await asyncio.sleep(0.05)
