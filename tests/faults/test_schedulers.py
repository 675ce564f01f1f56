"""Schedulers that die, stand still, and lose each other: every nominal time happens once, and soon.

`FAILOVER_KILLS` sets how many are killed, `FAILOVER_TTL` how long sessions last; 40 kills at 2 s
take three minutes.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial

import psutil
import pytest

from faults.stage import Program, Stage, eventually, stopped
from faults.timekeeping import Timekeeping
from fixtures.etcd import EtcdServer

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

TTL_SECONDS = float(os.environ.get("FAILOVER_TTL", "2"))
TAKEOVER_SECONDS = TTL_SECONDS + 4
KILLS = int(os.environ.get("FAILOVER_KILLS", "1"))
POINTS = (
    "tick.before_insert",
    "tick.after_insert",
    "tick.after_commit",
    "elect.after_key_before_epoch",
    "elect.after_epoch",
    "renew.after_reply",
)


@pytest.fixture
async def keeping(database: str) -> AsyncIterator[Timekeeping]:
    keeping = Timekeeping(database)
    yield keeping
    await keeping.close()


class Schedulers:
    """Schedulers of one installation."""

    def __init__(self, stage: Stage, **settings: object) -> None:
        self.stage = stage
        self.settings = {"scheduler_ttl_seconds": TTL_SECONDS, **settings}

    async def start(self, **settings: object) -> Program:
        program = self.stage.start("scheduler", **{**self.settings, **settings})
        await program.says("scheduler is ready")
        return program

    def armed(self, point: str, nth: int, sign: str) -> Program:
        command = [sys.executable, "-m", "faults.armed_scheduler", point, str(nth), sign]
        return self.stage.start_program(command, "armed", **self.settings)


def chosen_points(chance: random.Random) -> list[str]:
    """As many as are to be killed, each point before any for the second time."""
    points: list[str] = []
    while len(points) < KILLS:
        points += chance.sample(POINTS, len(POINTS))
    return points[:KILLS]


def gained_twice(program: Program) -> bool:
    return program.said.count("gained") >= 2


def with_etcd(*servers: EtcdServer, prefix: str = "mainspring") -> dict[str, object]:
    urls = ",".join(server.url for server in servers)
    return {"coordination": "etcd", "etcd_url": urls, "etcd_prefix": prefix}


@pytest.mark.parametrize("coordination", ["postgres", "etcd"])
async def test_kills_at_the_points_of_a_tick_and_of_a_takeover(
    stage: Stage, keeping: Timekeeping, request: pytest.FixtureRequest, coordination: str
) -> None:
    chance: random.Random = request.getfixturevalue("rng")
    settings: dict[str, object] = {}
    if coordination == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd_server")
        settings = with_etcd(server, prefix=request.getfixturevalue("etcd_prefix"))
    schedulers = Schedulers(stage, **settings)
    await keeping.make(30, 3)
    steady = await schedulers.start(scheduler_ttl_seconds=30)
    await keeping.up_to_date(TAKEOVER_SECONDS)
    began = await keeping.now()
    took: list[float] = []
    for point in chosen_points(chance):
        nth = 1 if point.startswith("elect") else chance.randrange(1, 5)
        victim = schedulers.armed(point, nth, "SIGKILL")
        assert await victim.ended() == -signal.SIGKILL, victim.said
        died_at = await keeping.now()
        # One failover at a time: who dies right after it took over would add its own.
        took.append(await keeping.up_to_date(TAKEOVER_SECONDS, died_at))
    late = await keeping.worst_lateness(began)
    print(f"{KILLS} kills, {coordination}: taken over after {max(took):.2f} s at most, on average")
    print(f"{sum(took) / KILLS:.2f} s; the latest tick was {late:.2f} s late")
    assert late <= TAKEOVER_SECONDS
    assert await keeping.violations() == []

    # A drain is no failover, which would take half a minute here: it hands over at once.
    heir = await schedulers.start()
    await heir.says("gained partitions")
    began = await keeping.now()
    steady.send(signal.SIGTERM)
    assert await steady.ended() == 0
    assert "and leaves" in steady.said
    await keeping.up_to_date(TAKEOVER_SECONDS, await keeping.now())
    assert await keeping.worst_lateness(began) < TAKEOVER_SECONDS
    assert await keeping.violations() == []


async def test_a_scheduler_that_stands_still_is_replaced_and_changes_nothing(
    stage: Stage, keeping: Timekeeping, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    schedulers = Schedulers(stage, **with_etcd(etcd_server, prefix=etcd_prefix))
    await keeping.make(30, 3)
    victims = [
        schedulers.armed("tick.before_insert", 3, "SIGSTOP"),
        schedulers.armed("tick.after_insert", 3, "SIGSTOP"),
    ]
    await schedulers.start()
    processes = [psutil.Process(victim.pid) for victim in victims]
    await eventually(lambda: all(stopped(processes)), "the stop of both")
    began = await keeping.now()
    members = {victim.said.partition("member ")[2].split()[0] for victim in victims}
    took = await keeping.taken_from(members, TAKEOVER_SECONDS + 1)
    await keeping.up_to_date(1.0)
    late = await keeping.worst_lateness(began)
    print(f"taken over {took:.2f} s after the stop; the latest tick was {late:.2f} s late")
    # The one that had inserted keeps its locks until the server ends its transaction.
    assert late <= TAKEOVER_SECONDS + 1
    before = await keeping.ticks()

    for process in processes:
        process.resume()
    for victim in victims:
        await victim.says("lost partitions")
        await victim.says("its session is over")
        # It is as good as new.
        await eventually(partial(gained_twice, victim), "a new share")
    await keeping.up_to_date(TAKEOVER_SECONDS)
    after = await keeping.ticks()
    for name, ticks in before.items():
        known = {tick.nominal_at: tick.task_id for tick in after[name]}
        assert {tick.nominal_at: tick.task_id for tick in ticks}.items() <= known.items()
    assert await keeping.violations() == []


async def test_etcd_stands_still_and_loses_everything(
    stage: Stage, keeping: Timekeeping, own_etcd: EtcdServer
) -> None:
    """Nothing is planned while nobody can be sure; what is ready, and submissions, go on."""
    schedulers = Schedulers(stage, **with_etcd(own_etcd))
    await keeping.make(12)
    await schedulers.start()
    await schedulers.start()
    worker = await stage.worker()
    await keeping.up_to_date(5.0)
    for fault in ("pause", "wipe"):
        before = await keeping.epochs()
        getattr(own_etcd, fault)()
        # Longer than anybody may trust what it knew.
        await asyncio.sleep(TTL_SECONDS)
        paused_at = await keeping.now()
        await keeping.run_task()
        ticks = await keeping.ticks()
        assert all(one.decided_at < paused_at for each in ticks.values() for one in each)
        if fault == "pause":
            own_etcd.resume()
        else:
            own_etcd.start()
        took = await keeping.up_to_date(13.0, await keeping.now())
        print(f"{fault}: ticks were up to date {took:.2f} s after etcd was back")
        after = await keeping.epochs()
        assert all(after[one] >= epoch for one, epoch in before.items())
    assert worker.process.poll() is None
    assert await keeping.violations() == []
    await stage.settled()


async def test_one_of_three_etcd_is_killed_and_then_another(
    stage: Stage, keeping: Timekeeping, etcd_cluster: list[EtcdServer]
) -> None:
    schedulers = Schedulers(stage, **with_etcd(*etcd_cluster))
    await keeping.make(12)
    await schedulers.start()
    await schedulers.start()
    await keeping.up_to_date(5.0)
    began = await keeping.now()
    etcd_cluster[0].kill()
    await asyncio.sleep(TTL_SECONDS)
    await keeping.up_to_date(TAKEOVER_SECONDS, await keeping.now())
    late = await keeping.worst_lateness(began)
    print(f"one of three was killed: the latest tick was {late:.2f} s late")
    assert late <= TAKEOVER_SECONDS
    etcd_cluster[1].kill()
    await asyncio.sleep(TTL_SECONDS)
    etcd_cluster[1].start()
    took = await keeping.up_to_date(13.0, await keeping.now())
    print(f"two of three were killed: up to date {took:.2f} s after one of them was back")
    assert await keeping.violations() == []
