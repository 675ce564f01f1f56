"""Everything that goes on in an installation while its partitions move, and what must be true
afterwards."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any
from uuid import UUID

import asyncpg

from integration.shards.movers import PROMISED_SECONDS
from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.core.routed_commits import commits_on
from mainspring.core.schedules import Change
from mainspring.core.session import Session
from mainspring.domain.errors import Unavailable
from mainspring.domain.ids import partition_of
from mainspring.domain.limits import Limit
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    Completed,
    Ending,
    Failed,
    Failure,
    FailureKind,
    LeaseRef,
    NewTask,
    Retried,
    Settlement,
)
from mainspring.ports.store import ClaimRequest
from mainspring.scheduler.planner import Planner

CLOCK = SystemClock()
LEASE_SECONDS = 4 * PROMISED_SECONDS
FAILURE = Failure(kind=FailureKind.ERROR, message="E: e")
EXACT = {
    "tasks": "id",
    "dead_letters": "id",
    "task_history": "id",
    "idempotency": "key",
    "schedules": "id",
    "ticks": "(schedule_id, nominal_at)",
}


class Traffic:
    """Submits, claims, renews, ends and plans until it is told to stop."""

    def __init__(self, session: Session, seed: int) -> None:
        print(f"seed {seed}")
        self.session = session
        self.store = session.store
        self.chance = random.Random(seed)
        self.ids = SystemIds()
        self.commits = commits_on(session.store, CLOCK, PROMISED_SECONDS)
        self.accepted: set[UUID] = set()
        self.keys: dict[str, UUID] = {}
        self.runs: Counter[UUID] = Counter()
        self.ended: Counter[UUID] = Counter()
        self.lost: list[UUID] = []
        self.refused: list[str] = []
        self._going = True
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.store.set_limits("default", group=Limit(concurrency=2))
        for number in range(6):
            change = Change(task_type="t", options={"every": 1.0, "timezone": "UTC"})
            await self.session.schedules.create(f"every{number}", change)
        for _ in range(2):
            self._loop(self._submit)
        for number in range(2):
            self._loop(self._worker(f"w{number}"))
        for part in self.store.parts():
            planner = Planner(part, CLOCK, SystemChance(), self.ids)
            self._loop(planner.run_once)

    def _loop(self, step: Callable[[], Awaitable[object]]) -> None:
        async def go() -> None:
            while self._going:
                with suppress(Unavailable):
                    await step()
                await CLOCK.sleep(0.05)

        self._loops.append(asyncio.get_running_loop().create_task(go()))

    async def stop(self) -> None:
        self._going = False
        await asyncio.gather(*self._loops)

    async def _submit(self) -> None:
        key = f"k{self.chance.randrange(10**9)}" if self.chance.random() < 0.4 else None
        group = f"g{self.chance.randrange(12)}" if self.chance.random() < 0.3 else None
        if group is not None:
            key = None
        task = NewTask(
            id=self.ids.task_id(group or key),
            task_type="t",
            key=key,
            fingerprint="f" if key else None,
            group_key=group,
        )
        began = CLOCK.monotonic()
        try:
            answer = await self.commits.submit(task, first=True)
        except Unavailable as error:
            waited = CLOCK.monotonic() - began
            said = f"after {waited:.2f} s, partition {partition_of(task.id)}: {error!r}"
            self.refused.append(said)
            print(said)
            raise
        self.accepted.add(answer.id)
        if key is not None:
            self.keys[key] = answer.id

    def _worker(self, name: str) -> Callable[[], Awaitable[None]]:
        request = ClaimRequest(
            worker_id=name, limit=5, lease_seconds=LEASE_SECONDS, task_types=("t",)
        )

        async def step() -> None:
            claim = await self.store.claim(request)
            leases = [LeaseRef(lease.id, lease.fencing_token) for lease in claim.leases]
            self.runs.update(lease.id for lease in leases)
            await CLOCK.sleep(self.chance.random() * 0.05)
            if not leases:
                return
            renewals = await insisted(lambda: self.store.heartbeat(leases, LEASE_SECONDS))
            self.lost += [renewal.id for renewal in renewals if not renewal.held]
            settlements = [
                Settlement(lease.id, lease.fencing_token, self._ending(lease.id))
                for lease in leases
            ]
            answers = await insisted(lambda: self.store.settle(settlements))
            for settlement, answer in zip(settlements, answers, strict=True):
                if not answer:
                    self.lost.append(settlement.id)
                elif not isinstance(settlement.ending, Retried):
                    self.ended[settlement.id] += 1

        return step

    def _ending(self, task_id: UUID) -> Ending:
        drawn = self.chance.random()
        if drawn < 0.1 and self.runs[task_id] == 1:
            return Retried(FAILURE, 0.0)
        return Failed(FAILURE) if drawn > 0.95 else Completed(None)

    async def drained(self, seconds: float = PROMISED_SECONDS) -> None:
        """Run until everything that was submitted has ended."""
        step = self._worker("last")
        async with asyncio.timeout(seconds):
            while self.accepted - self.ended.keys():
                await step()
                # On a slow machine the answer to a claim may come too late for these workers, who
                # ask for nothing that they were not told of.
                await insisted(lambda: self.store.rescue(100))

    async def check(self, dsns: list[str]) -> None:
        """Everything is there once, in its shard, and ran and ended once."""
        assert self.lost == []
        assert self.accepted <= self.ended.keys()
        assert set(self.ended.values()) == {1}
        ids = sorted(self.accepted)
        for start in range(0, len(ids), 500):
            found = await self.store.statuses(ids[start : start + 500])
            assert set(found) == {*ids[start : start + 500]}
            assert set(found.values()) <= {TaskStatus.COMPLETED, TaskStatus.FAILED}
        rows: dict[str, list[Any]] = {name: [] for name in EXACT}
        live: set[UUID] = set()
        for number, dsn in enumerate(dsns):
            connection = await asyncpg.connect(dsn)
            for name, key in EXACT.items():
                mark = {"idempotency": "task_id", "ticks": "schedule_id"}.get(name, "id")
                found_rows = await connection.fetch(
                    f"SELECT {key} AS key, {mark} AS id FROM mainspring.{name}"
                )
                assert {self.store.shard_of(row["id"]) for row in found_rows} <= {number}, name
                rows[name] += [row["key"] for row in found_rows]
            for name in ("tasks", "dead_letters", "task_history"):
                ids_there = await connection.fetch(f"SELECT id FROM mainspring.{name}")
                there = {row["id"] for row in ids_there}
                assert not live & there, name
                live |= there
            await connection.close()
        for name, keys in rows.items():
            assert len(set(keys)) == len(keys), name
        assert self.accepted <= live
        await self._check_keys()
        await self._check_ticks()

    async def _check_keys(self) -> None:
        for key, known in self.chance.sample(sorted(self.keys.items()), min(40, len(self.keys))):
            task = NewTask(id=self.ids.task_id(key), task_type="t", key=key, fingerprint="f")
            (answer,) = await self.store.submit([task])
            assert answer.id == known, key

    async def _check_ticks(self) -> None:
        for schedule in await self.session.schedules.all():
            ticks = await self.session.schedules.history(schedule.name, limit=100)
            times = sorted(tick.nominal_at for tick in ticks)
            assert len(times) >= 2, schedule.name
            steps = {(b - a).total_seconds() for a, b in pairwise(times)}
            assert steps == {1.0}, (schedule.name, times)


async def insisted(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat what may be repeated, as workers do."""
    async with asyncio.timeout(PROMISED_SECONDS):
        while True:
            try:
                return await call()
            except Unavailable:
                await CLOCK.sleep(0.05)
