"""etcd is away, stands still, or loses everything: nothing is planned while nobody can be sure, all
else goes on, and planning goes on soon after it is back.

`ETCD_AWAY` sets how many seconds it is away, `FAILOVER_TTL` how long sessions last.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faults.schedulers import TAKEOVER_SECONDS, TTL_SECONDS, Schedulers, with_etcd
from faults.stage import Stage
from faults.timekeeping import Timekeeping
from faults.witness import SCHEDULER, Witness
from fixtures.etcd import EtcdServer
from fixtures.guarded_etcd import GuardedEtcd
from fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

AWAY_SECONDS = float(os.environ.get("ETCD_AWAY", "0"))
BACK_SECONDS = 13.0


@pytest.fixture
async def keeping(database: str) -> AsyncIterator[Timekeeping]:
    keeping = Timekeeping(database)
    yield keeping
    await keeping.close()


@pytest.fixture
def guarded_etcd(tmp_path: Path) -> Iterator[GuardedEtcd]:
    """An etcd with TLS that asks for certificates and passwords, and is the test's own."""
    etcd = GuardedEtcd(tmp_path)
    try:
        etcd.server.until_ready()
        etcd.ask_for_users()
        yield etcd
    finally:
        etcd.server.kill()


@pytest.fixture
async def witness(stage: Stage) -> AsyncIterator[Witness]:
    witness = Witness(stage.database_url)
    await witness.install()
    yield witness
    stage.end()
    await witness.forget()


@pytest.mark.timeout(120 + AWAY_SECONDS)
async def test_etcd_is_away_and_stands_still_and_loses_everything(
    stage: Stage,
    keeping: Timekeeping,
    guarded_etcd: GuardedEtcd,
    witness: Witness,
    postgres_server: PostgresServer,
) -> None:
    """Nothing is planned while nobody can be sure; what is ready, and submissions, go on."""
    server = guarded_etcd.server
    url = f"https://mainspring:s3cret@{server.endpoint}"
    schedulers = Schedulers(stage, **guarded_etcd.settings(etcd_url=url))
    await keeping.make(12)
    name = stage.database_url.partition("?")[0].rpartition("/")[2]
    for number in range(2):
        role = f"{SCHEDULER}etcd{number}"
        await schedulers.start(database_url=await witness.role(role, postgres_server.tcp_dsn(name)))
    worker = await stage.worker()
    await keeping.up_to_date(BACK_SECONDS)
    for fault, away in (("kill", AWAY_SECONDS), ("pause", 0.0), ("wipe", 0.0)):
        before = await keeping.epochs()
        getattr(server, fault)()
        began = time.monotonic()
        # Longer than anybody may trust what it knew.
        await asyncio.sleep(TTL_SECONDS)
        paused_at = await keeping.now()
        done = 0
        while not done or time.monotonic() - began < away:
            await keeping.run_task()
            done += 1
        ticks = await keeping.ticks()
        assert all(one.decided_at < paused_at for each in ticks.values() for one in each)
        if fault == "pause":
            server.resume()
        else:
            server.start()
        away_for = time.monotonic() - began
        took = await keeping.up_to_date(BACK_SECONDS, await keeping.now())
        print(f"{fault}: away for {away_for:.1f} s, in which {done} tasks were submitted and run;")
        print(f"ticks were up to date {took:.2f} s after etcd was back")
        after = await keeping.epochs()
        assert all(after[one] >= epoch for one, epoch in before.items())
    assert worker.process.poll() is None
    assert await keeping.violations() == []
    assert await witness.violations() == []
    seen = await witness.seen()
    print(seen)
    assert seen.plans
    await stage.settled()


async def test_one_of_three_etcd_is_killed_and_then_another(
    stage: Stage, keeping: Timekeeping, etcd_cluster: list[EtcdServer]
) -> None:
    schedulers = Schedulers(stage, **with_etcd(*etcd_cluster))
    await keeping.make(12)
    await schedulers.start()
    await schedulers.start()
    await keeping.up_to_date(BACK_SECONDS)
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
    took = await keeping.up_to_date(BACK_SECONDS, await keeping.now())
    print(f"two of three were killed: up to date {took:.2f} s after one of them was back")
    assert await keeping.violations() == []
