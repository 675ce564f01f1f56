"""Schedulers that die, stand still, and lose each other: every nominal time happens once, and soon.

`FAILOVER_KILLS` sets how many are killed, `FAILOVER_TTL` how long sessions last; 40 kills at 2 s
take three minutes.
"""

import os
import random
import signal
from collections.abc import AsyncIterator
from functools import partial

import psutil
import pytest

from faults.schedulers import TAKEOVER_SECONDS, Schedulers, with_etcd
from faults.stage import Program, Stage, eventually, stopped
from faults.timekeeping import Timekeeping
from fixtures.etcd import EtcdServer

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

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


def chosen_points(chance: random.Random) -> list[str]:
    """As many as are to be killed, each point before any for the second time."""
    points: list[str] = []
    while len(points) < KILLS:
        points += chance.sample(POINTS, len(POINTS))
    return points[:KILLS]


def gained_twice(program: Program) -> bool:
    return program.said.count("gained") >= 2


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
    await keeping.up_to_date(TAKEOVER_SECONDS)
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
