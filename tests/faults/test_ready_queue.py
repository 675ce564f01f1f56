"""Redis is emptied, killed, stopped, set back and filled up while work goes on: nothing is lost,
nothing that has ended runs again, and nobody who submits notices.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from faults.stage import Stage, eventually
from fixtures.valkey import ValkeyServer
from mainspring import Mainspring, Settings

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

BATCH = 50
STOPPED_SECONDS = 10.0
SUBMIT_SECONDS = 2.0


@pytest.fixture
def queued(own_valkey: ValkeyServer) -> dict[str, str]:
    """The settings of everything here."""
    return {"ready_queue": "redis", "redis_url": own_valkey.url, "redis_prefix": "p"}


@pytest.fixture
async def queued_app(stage: Stage, queued: dict[str, str]) -> AsyncIterator[Mainspring]:
    app = Mainspring(Settings(database_url=stage.database_url, **queued))  # type: ignore[arg-type]
    yield app
    await app.close()


class Watch:
    """Submits, and measures how long that and the work take."""

    def __init__(self, stage: Stage, app: Mainspring) -> None:
        self.stage = stage
        self.app = app
        self.times: dict[str, tuple[float, float]] = {}

    async def work(self, name: str, count: int = BATCH) -> None:
        done = len(self.stage.events("done"))
        started = time.monotonic()
        await self.stage.submit(self.app, count, "work")
        submitted = time.monotonic()
        await self.stage.happens("done", done + count)
        self.times[name] = (submitted - started, time.monotonic() - submitted)


async def test_whatever_becomes_of_redis_no_task_is_lost_or_runs_again(
    stage: Stage, queued_app: Mainspring, queued: dict[str, str], own_valkey: ValkeyServer
) -> None:
    scheduler = stage.start("scheduler", **queued)
    await scheduler.says("the ready queue is fed")
    await stage.worker(**queued)
    watch = Watch(stage, queued_app)
    await watch.work("as ever")

    own_valkey.ask("FLUSHALL")
    await watch.work("emptied")

    # Tasks that are due in a while are in what Redis saves, and have ended when it comes back.
    later = [queued_app.new_task("work", {}, delay=1.0) for _ in range(BATCH)]
    ids = [handle.id for handle in await queued_app.submit_many(later)]
    stage.accepted.update(map(str, ids))
    assert own_valkey.ask("SAVE") == "+OK\r\n"
    await stage.happens("done", 3 * BATCH)
    own_valkey.kill()
    await watch.work("away")
    own_valkey.start()
    await watch.work("set back")

    own_valkey.kill()
    (own_valkey.directory / "dump.rdb").unlink()
    own_valkey.start()
    await watch.work("started empty")

    own_valkey.ask("CONFIG", "SET", "maxmemory", "1")
    await watch.work("full")
    own_valkey.ask("CONFIG", "SET", "maxmemory", "0")

    own_valkey.pause()
    stopped = time.monotonic()
    try:
        await watch.work("stopped")
        await watch.work("still stopped")
        await asyncio.sleep(max(0.0, stopped + STOPPED_SECONDS - time.monotonic()))
    finally:
        own_valkey.resume()
    await watch.work("back")

    await eventually(lambda: own_valkey.ask("EXISTS", "{p:0}:fed") == ":1\r\n", "fed again")
    await stage.settled()
    print({name: f"{a:.2f} s, {b:.2f} s" for name, (a, b) in watch.times.items()})
    assert max(submitting for submitting, _ in watch.times.values()) < SUBMIT_SECONDS
    history = await stage.history()
    assert history.violations() == []
    starts = stage.events("start")
    assert len(starts) == len(stage.accepted) == 9 * BATCH + BATCH
