"""Partitions move whose tasks stand at gates: nothing stays held, and no limit is exceeded."""

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import AsyncIterator, Collection
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import asyncpg
import msgspec
import pytest

from integration.shards.movers import MOVED, PROMISED_SECONDS, Waiting, mover_of
from integration.shards.traffic import CLOCK, insisted
from mainspring.adapters.sharded.store import ShardedStore
from mainspring.adapters.system import SystemChance, SystemIds
from mainspring.config import Settings
from mainspring.domain.ids import key_tail, moved_into
from mainspring.domain.limits import Limit
from mainspring.domain.task import Completed, Lease, LeaseRef, NewTask, Settlement
from mainspring.ports.hooks import HookPoint
from mainspring.ports.store import ClaimRequest
from mainspring.ports.whole import WholeStore
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.move_watch import MoveWatch
from mainspring.wiring.moving import move_watch
from mainspring.wiring.shards import open_shards
from mainspring.wiring.store import migrate

pytestmark = pytest.mark.postgres

MOVING = [key for key in map(str, range(500)) if key_tail(key) % 64 in MOVED]
TWO, RATED, FREE = MOVING[:3]
STAYS = next(key for key in map(str, range(500)) if key_tail(key) % 64 < 16)
RATE, BURST = 40.0, 4


def grouped(group_key: str, count: int) -> list[NewTask]:
    ids = SystemIds()
    return [
        NewTask(id=ids.task_id(group_key), task_type="t", queue="q", group_key=group_key)
        for _ in range(count)
    ]


def own_tasks(count: int, partitions: Collection[int]) -> list[NewTask]:
    ids = SystemIds()
    made = [moved_into(ids.task_id(), sorted(partitions)) for _ in range(count)]
    return [NewTask(id=one, task_type="t", queue="own") for one in made]


def watch_of(settings: Settings, store: ShardedStore) -> MoveWatch:
    return move_watch(settings, store, Loop(CLOCK, SystemChance()))


class Crew:
    """Claims and runs tasks until it is told to stop."""

    def __init__(self, store: WholeStore) -> None:
        self.store = store
        self.done: Counter[UUID] = Counter()
        self._chance = random.Random(1)
        self._freed: list[tuple[str, str]] = []
        self._is_going = True
        self._running: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop().create_task(self._claim())

    async def _claim(self) -> None:
        while self._is_going:
            freed, self._freed = self._freed, []
            request = ClaimRequest(
                worker_id="w", limit=5, lease_seconds=60.0, task_types=("t",), freed=tuple(freed)
            )
            claim = await insisted(partial(self.store.claim, request))
            for lease in claim.leases:
                group = None if lease.group_key is None else (lease.queue, lease.group_key)
                ref = LeaseRef(lease.id, lease.fencing_token)
                running = asyncio.get_running_loop().create_task(self._run(ref, group))
                self._running.add(running)
                running.add_done_callback(self._running.discard)
            await CLOCK.sleep(0.01)

    async def _run(self, ref: LeaseRef, group: tuple[str, str] | None) -> None:
        await CLOCK.sleep(self._chance.random() * 0.04)
        ending = Settlement(ref.id, ref.fencing_token, Completed(None))
        assert await insisted(lambda: self.store.settle([ending])) == [True]
        if group is not None:
            self._freed.append(group)
        self.done[ref.id] += 1

    async def until_done(self, tasks: list[NewTask]) -> None:
        async with asyncio.timeout(PROMISED_SECONDS):
            while any(task.id not in self.done for task in tasks):
                await CLOCK.sleep(0.01)

    async def stop(self) -> None:
        self._is_going = False
        await asyncio.gather(self._loop, *self._running)


@pytest.fixture
async def settings(dsns: list[str], tmp_path: Path) -> Settings:
    settings = dataclasses.replace(Settings(), database_url=",".join(dsns), data_dir=tmp_path)
    await migrate(settings)
    return settings


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[ShardedStore]:
    store = await open_shards(settings)
    yield store
    await store.close()


async def spans_of(dsns: list[str], tasks: list[NewTask]) -> list[tuple[datetime, datetime]]:
    """Return when tasks started and ended, in whatever shard."""
    spans = []
    for dsn in dsns:
        connection = await asyncpg.connect(dsn)
        spans += await connection.fetch(
            "SELECT started_at, completed_at FROM mainspring.task_history WHERE id = ANY ($1)",
            [task.id for task in tasks],
        )
        await connection.close()
    assert len(spans) == len(tasks)
    return sorted((start, end) for start, end in spans)


async def most_at_once(dsns: list[str], tasks: list[NewTask]) -> int:
    running = sorted(
        at for start, end in await spans_of(dsns, tasks) for at in ((start, 1), (end, -1))
    )
    return max(sum(step for _, step in running[:n]) for n in range(1, len(running) + 1))


async def gates_are_clear(dsns: list[str]) -> bool:
    for dsn in dsns:
        connection = await asyncpg.connect(dsn)
        count = await connection.fetchval("SELECT count(*) FROM mainspring.lines")
        await connection.close()
        if count:
            return False
    return True


async def test_groups_move_with_what_waits_at_their_gates(
    settings: Settings, dsns: list[str], store: ShardedStore
) -> None:
    await store.set_group_limit("q", TWO, Limit(concurrency=2))
    await store.set_group_limit("q", RATED, Limit(rate=RATE, burst=BURST))
    await store.set_limits("own", whole=Limit(concurrency=4))
    two, rated, free, stays = (
        grouped(key, count) for key, count in ((TWO, 80), (RATED, 60), (FREE, 80), (STAYS, 40))
    )
    own = own_tasks(40, MOVED)
    await store.submit([*two, *rated, *free, *own])
    crew = Crew(store)
    looking = asyncio.create_task(watch_of(settings, store).run())
    await crew.until_done(two[:1])
    waiting = Waiting(HookPoint.MOVE_AFTER_FREEZE)
    move = asyncio.create_task(mover_of(settings, waiting).move(MOVED, 1))
    await waiting.reached.wait()
    # What is refused here is in nobody's way.
    await store.submit(stays)
    await crew.until_done(stays)
    waiting.goes.set()
    print(f"refused for {await move:.2f} s; {len(crew.done)} of 260 had ended")
    assert any(task.id not in crew.done for task in two)
    await mover_of(settings).move(MOVED, 0)
    print(f"{len(crew.done)} of 260 had ended when all was back")
    await crew.until_done([*two, *rated, *free, *own])
    async with asyncio.timeout(PROMISED_SECONDS):
        while not await gates_are_clear(dsns):
            await CLOCK.sleep(0.05)
    await crew.stop()
    looking.cancel()
    await asyncio.wait([looking])
    assert set(crew.done.values()) == {1}
    assert await most_at_once(dsns, two) == 2
    assert await most_at_once(dsns, own) <= 4
    starts = [start for start, _ in await spans_of(dsns, rated)]
    for first, begin in enumerate(starts):
        for last, end in enumerate(starts[first:], 1):
            assert last <= BURST + RATE * (end - begin).total_seconds() + 1e-6


async def test_the_gate_of_the_source_is_passed_over_and_that_of_the_target_goes_on(
    settings: Settings, dsns: list[str], store: ShardedStore
) -> None:
    await store.set_group_limit("q", TWO, Limit(concurrency=1))
    await store.set_group_limit("q", RATED, Limit(rate=0.001, burst=2))
    await store.submit([*grouped(TWO, 3), *grouped(RATED, 5)])
    request = ClaimRequest(worker_id="w", limit=9, lease_seconds=60.0, task_types=("t",))
    leases = (await store.claim(request)).leases
    assert Counter(lease.group_key for lease in leases) == {TWO: 1, RATED: 2}
    waiting = Waiting(HookPoint.MOVE_AFTER_FREEZE)
    move = asyncio.create_task(mover_of(settings, waiting).move(MOVED, 1))
    await waiting.reached.wait()
    assert (await store.claim(request)).leases == []
    connection = await asyncpg.connect(dsns[0])
    held = "SELECT id FROM mainspring.tasks WHERE status = 'held' LIMIT 1"
    for statement in (
        f"UPDATE mainspring.tasks SET status = 'coming' WHERE id = ({held})",
        f"UPDATE mainspring.tasks SET scheduled_at = now() WHERE id = ({held})",
        f"DELETE FROM mainspring.tasks WHERE id = ({held})",
        "UPDATE mainspring.tasks SET progress = '1' WHERE status = 'running'",
    ):
        with pytest.raises(asyncpg.PostgresError, match="moves to another shard"):
            await connection.execute(statement)
    assert (
        await connection.execute(
            f"UPDATE mainspring.tasks SET status = 'pending' WHERE id = ({held})"
        )
        == "UPDATE 0"
    )
    await connection.close()
    waiting.goes.set()
    await move
    assert (await store.claim(request)).leases == []
    ended = [Settlement(lease.id, lease.fencing_token, Completed(None)) for lease in leases]
    assert await store.settle(ended) == [True] * 3
    freed = msgspec.structs.replace(request, freed=(("q", TWO),))
    assert [lease.group_key for lease in (await store.claim(freed)).leases] == [TWO]


async def test_tasks_take_their_places_along_when_they_move_while_they_run(
    settings: Settings, dsns: list[str], store: ShardedStore
) -> None:
    await store.set_limits("own", whole=Limit(concurrency=6))
    # Each time it looks at once at what had no room.
    request = ClaimRequest(
        worker_id="w",
        limit=9,
        lease_seconds=60.0,
        task_types=("t",),
        freed=(("own", ""),),
    )

    async def more(count: int) -> list[Lease]:
        """Claim so many, and see that there are no others."""
        leases: list[Lease] = []
        async with asyncio.timeout(PROMISED_SECONDS):
            while len(leases) < count:
                leases += (await store.claim(request)).leases
                await CLOCK.sleep(0.02)
        leases += (await store.claim(request)).leases
        assert len(leases) == count
        return leases

    async def end(leases: list[Lease]) -> None:
        ended = [Settlement(one.id, one.fencing_token, Completed(None)) for one in leases]
        assert await store.settle(ended) == [True] * len(leases)

    await store.submit(own_tasks(2, MOVED))
    moved = await more(2)
    await store.submit([*own_tasks(5, range(16)), *own_tasks(7, range(32, 64))])
    others = await more(4)
    assert Counter(store.shard_of(one.id) for one in others) == {0: 1, 1: 3}
    await mover_of(settings).move(MOVED, 1)
    await store.settled([], 0)
    watch = watch_of(settings, store)
    await watch.run_once()
    await more(0)
    await end(moved[:1])
    await watch_of(settings, store).run_once()
    (one,) = await more(1)
    assert store.shard_of(one.id) == 0
    await end([one, *moved[1:], *others])
    await watch_of(settings, store).run_once()
    leases = await more(6)
    assert Counter(store.shard_of(one.id) for one in leases) == {0: 3, 1: 3}
    connection = await asyncpg.connect(dsns[0])
    assert await connection.fetchval("SELECT count(*) FROM mainspring.lent_places") == 0
    await connection.close()
