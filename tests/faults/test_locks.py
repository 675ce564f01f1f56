"""Holders of locks are killed and stopped: others get the lock after its end and not before, and
whoever comes back late changes nothing.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psutil
import pytest

from faults.stage import TESTS, Program, Stage, eventually, stopped
from fixtures.valkey import ValkeyServer
from mainspring import Mainspring, Settings
from mainspring.ports.locks import Grant, Locks, Refusal
from mainspring.wiring.redis import redis_locks

pytestmark = pytest.mark.fault

TTL = 1.0
LEASE_SECONDS = 4.0
HEARTBEAT_SECONDS = 0.5

SET_BACK = """
    UPDATE mainspring.tasks SET status = 'pending', worker_id = NULL, lease_expires_at = NULL,
        started_at = NULL, fencing_token = fencing_token - 1, attempt_count = attempt_count - 1
"""
"""What a server that lost its last second knows of a task that was claimed in it."""


@pytest.fixture
async def locks(own_valkey: ValkeyServer) -> AsyncIterator[Locks]:
    locks = redis_locks(Settings(redis_url=own_valkey.url))
    yield locks
    await locks.close()


@contextmanager
def holder(server: ValkeyServer) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that has the lock `a`, and the number of its grant."""
    process = subprocess.Popen(
        [sys.executable, "-m", "faults.lock_holder", server.url, "a", str(TTL)],
        env={**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent / 'src'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline().removeprefix("number "))
    finally:
        process.kill()
        process.communicate()


async def next_grant(locks: Locks) -> tuple[Grant, float]:
    """Wait for the lock, and return with it how long that took."""
    started = time.monotonic()
    while isinstance(answer := await locks.acquire("a", "next", 60.0), Refusal):
        assert time.monotonic() - started < 2 * TTL
        await asyncio.sleep(min(answer.seconds, 0.02))
    return answer, time.monotonic() - started


async def test_the_lock_of_a_holder_that_was_killed_is_free_after_its_end(
    own_valkey: ValkeyServer, locks: Locks
) -> None:
    with holder(own_valkey) as (process, number):
        process.kill()
        grant, seconds = await next_grant(locks)
    print(f"free {seconds:.2f} s after the kill")
    assert grant.number > number
    assert TTL / 2 < seconds < TTL + 0.5


async def test_a_holder_that_stood_still_changes_nothing_when_it_goes_on(
    own_valkey: ValkeyServer, locks: Locks
) -> None:
    with holder(own_valkey) as (process, number):
        process.send_signal(signal.SIGSTOP)
        grant, _ = await next_grant(locks)
        assert grant.number > number
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("go on\n", timeout=10)
    assert said.split() == ["extended", "False", "released", "False"]
    other = await locks.acquire("a", "third", 60.0)
    assert isinstance(other, Refusal)
    assert other.seconds > 50
    assert await locks.release("a", "next")


def start_worker(stage: Stage, server: ValkeyServer, processes: int = 1) -> Program:
    return stage.start(
        *("worker", "--app", "faults.exclusive_handlers:app"),
        redis_url=server.url,
        processes=processes,
        # So few that the tasks of a test are spread over the processes.
        concurrency=2,
        lease_seconds=LEASE_SECONDS,
        heartbeat_seconds=HEARTBEAT_SECONDS,
    )


@pytest.mark.postgres
async def test_after_a_database_was_set_back_the_second_worker_waits_for_the_lock_of_the_first(
    stage: Stage, app: Mainspring, own_valkey: ValkeyServer
) -> None:
    """The first worker's agent stands still, so it cannot hear that its lease is gone; its handler
    goes on. The second worker is given the task at once, and waits for the lock to end.
    """
    first = psutil.Process(start_worker(stage, own_valkey).pid)
    await stage.submit(app, 1, "alone", gate=str(stage.gate))
    await stage.happens("start", 1)
    await start_worker(stage, own_valkey).says("worker runs")
    first.send_signal(signal.SIGSTOP)
    await eventually(lambda: all(stopped([first])), "the stop of the first agent")
    since = time.time()
    await stage.ask(SET_BACK)
    _, second = await stage.happens("start", 2)
    waited = second["at"] - since
    print(f"the second attempt began {waited:.2f} s after the first worker stood still")
    assert waited > LEASE_SECONDS - HEARTBEAT_SECONDS - 0.5
    first.send_signal(signal.SIGCONT)
    await stage.happens("stopped", 1)
    (interrupted,) = stage.events("stopped")
    assert interrupted["pid"] == stage.events("start")[0]["pid"]
    stage.open_gate()
    await stage.settled()
    (done,) = stage.events("done")
    assert done["pid"] == second["pid"]


@pytest.mark.postgres
async def test_handlers_with_one_lock_run_one_after_the_other_in_both_processes(
    stage: Stage, app: Mainspring, own_valkey: ValkeyServer
) -> None:
    start_worker(stage, own_valkey, processes=2)
    await stage.submit(app, 6, "in_turn", seconds=0.2)
    await stage.happens("leave", 6)
    await stage.settled()
    entered = sorted(stage.events("enter"), key=lambda one: one["at"])
    print(f"in {len({each['pid'] for each in entered})} processes")
    moments = sorted((each["at"], each["event"]) for each in [*entered, *stage.events("leave")])
    assert [event for _, event in moments] == ["enter", "leave"] * 6
    results = [(await app.get(each["task"])).result for each in entered]
    assert all(one < other for one, other in itertools.pairwise(results))
