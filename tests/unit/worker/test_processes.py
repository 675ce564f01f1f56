"""The agent's side of a runner process: what it says last, and that it goes when it should."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mainspring.core.registry import Mode
from mainspring.domain.task import Completed
from mainspring.worker.messages import Ended, ToAgent
from mainspring.worker.processes import RunnerProcess

READY = """
import socket, sys, threading, time
from mainspring.domain.task import Completed
from mainspring.worker.channel import encode_frame
from mainspring.worker.messages import Ended, Ready
agent = socket.socket(fileno=int(sys.argv[-1]))
socket.recv_fds(agent, 16, 1)
agent.sendall(encode_frame([Ready(1)]))
"""
SPEAKS_AND_DIES = READY + "agent.recv(1); agent.sendall(encode_frame([Ended(7, Completed())]))"
STAYS = READY + "threading.Thread(target=time.sleep, args=(600,)).start()"
PATIENCE = 20.0


class Listener:
    """Notes what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.ready = asyncio.Event()
        self.died = asyncio.Event()

    def runner_ready(self, runner: RunnerProcess) -> None:
        del runner
        self.ready.set()

    def runner_said(self, runner: RunnerProcess, messages: list[ToAgent]) -> None:
        del runner
        self.told += messages

    def runner_died(self, runner: RunnerProcess) -> None:
        del runner
        self.told.append("died")
        self.died.set()


@asynccontextmanager
async def running(program: str) -> AsyncIterator[tuple[RunnerProcess, Listener]]:
    listener = Listener()
    runner = RunnerProcess([sys.executable, "-c", program], {Mode.ASYNC: 1}, listener)
    runner.spawn()
    try:
        await runner.connect()
        await asyncio.wait_for(listener.ready.wait(), PATIENCE)
        yield runner, listener
    finally:
        runner.kill()
        await asyncio.wait_for(runner.wait(), PATIENCE)


async def test_what_a_process_said_last_is_heard_although_its_death_is_noticed_first() -> None:
    async with running(SPEAKS_AND_DIES) as (runner, listener):
        runner.tell("go on")
        await asyncio.sleep(0)
        # The event loop stands still meanwhile, so it sees the death and the last words together.
        os.waitid(os.P_PID, runner.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - as meant
        runner.look()
        await asyncio.wait_for(listener.died.wait(), PATIENCE)
        assert listener.told == [Ended(7, Completed()), "died"]


async def test_a_process_that_has_nothing_to_do_and_does_not_end_by_itself_is_ended() -> None:
    async with running(STAYS) as (runner, listener):
        runner.close()
        await asyncio.wait_for(listener.died.wait(), 5)
        assert runner.status == "signal SIGKILL"
