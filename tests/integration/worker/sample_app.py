"""The app of these tests: handlers that misbehave in every way, and the runner that loads them.

A handler writes what it does to the file named in its payload, one line at a time, so that a test
sees every execution, also one that was killed. Run as a script this is a runner process.
"""

import argparse
import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg

from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.adapters.system import SystemClock
from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.core.registry import Registry
from mainspring.domain.outcomes import Cancel, Fail, Retry, Snooze
from mainspring.domain.task import LeaseRef
from mainspring.worker.runner import runner_main


def note(log: str, text: str) -> None:
    """Append one line in one write, which survives whatever happens to this process next."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{text} {os.getpid()}\n".encode())
    os.close(fd)


async def noop(value: int = 0) -> None:
    pass


def noop_thread(value: int = 0) -> None:
    pass


async def echo(ctx: TaskContext, value: Any, log: str | None = None) -> Any:
    if log is not None:
        note(log, f"run {ctx.task_id} {ctx.attempt} {ctx.fencing_token}")
    return value


async def typed(count: int, name: str = "none") -> str:
    return f"{name} {count}"


async def asleep(ctx: TaskContext, log: str, seconds: float = 60.0) -> str:
    note(log, f"start {ctx.attempt}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(log, "stopped")
        raise
    note(log, "end")
    return "slept"


async def stubborn(log: str, seconds: float = 60.0) -> None:
    """Takes no notice of being told to stop."""
    note(log, "start")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
    note(log, "end")


async def busy_async(log: str, seconds: float, gate: str = "") -> None:
    """Blocks the event loop, until there is a gate where one is named."""
    note(log, "start")
    until = time.monotonic() + seconds
    while time.monotonic() < until and not (gate and os.access(gate, os.F_OK)):
        pass
    note(log, "end")


def busy_thread(ctx: TaskContext, log: str, seconds: float = 60.0) -> None:
    note(log, "start")
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            pass
    except asyncio.CancelledError:
        note(log, "stopped")
        raise
    note(log, "end")


def polite_thread(ctx: TaskContext, log: str, seconds: float = 60.0) -> str:
    note(log, "start")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if ctx.is_cancelled:
                break
            time.sleep(0.01)
        except asyncio.CancelledError:
            break
    note(log, "stopped")
    raise Cancel("noticed")


def block_thread(log: str, seconds: float) -> None:
    note(log, "start")
    time.sleep(seconds)
    note(log, "end")


def add_up(log: str, steps: int) -> None:
    """One call of C code that never lets go of the interpreter."""
    note(log, "start")
    sum(range(steps))
    note(log, "end")


def in_process(ctx: TaskContext, log: str, seconds: float = 60.0) -> int:
    note(log, "start")
    child = subprocess.Popen(["sleep", str(seconds)])
    note(log, f"child={child.pid}")
    time.sleep(seconds)
    note(log, "end")
    return os.getpid()


def quick_process(value: int) -> int:
    return os.getpid()


async def poison(log: str) -> None:
    note(log, "poison")
    os.kill(os.getpid(), signal.SIGKILL)


async def good(log: str, name: str, seconds: float = 0.05) -> str:
    note(log, f"good {name}")
    await asyncio.sleep(seconds)
    note(log, f"done {name}")
    return name


async def outcome(kind: str) -> Any:
    match kind:
        case "retry":
            raise Retry("not yet", after=0.0)
        case "snooze":
            return Snooze(3600)
        case "cancel":
            raise Cancel("no need")
        case "fail":
            raise Fail("never")
        case "nan":
            return {"values": [1, float("nan")]}
        case "exit":
            sys.exit(3)
        case _:
            raise RuntimeError(kind)


async def when() -> float:
    return time.time()


async def third_time_lucky(ctx: TaskContext, log: str) -> None:
    """Notes when it began, by a clock that all processes of the machine share."""
    note(log, f"began {ctx.task_id} {time.monotonic_ns()}")
    if ctx.attempt < 3:
        raise RuntimeError("not yet")


async def trap(kind: str) -> Any:
    """Returns, or raises, what some part of the system could not hold."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    traps: dict[str, Any] = {
        "nul": "a\x00b",
        "half a pair": {"text": "\ud800"},
        "not a number": [float("nan")],
        "infinite": -math.inf,
        "huge": 10**400,
        "deep": deep,
        "large": "x" * 300_000,
        "no value": object(),
    }
    if kind == "error":
        raise RuntimeError("a\x00b \ud800 \x1b[2J\r\n" + "x" * 1_000_000)
    return traps[kind]


async def reports(ctx: TaskContext, steps: int) -> None:
    for step in range(steps):
        await ctx.progress({"step": step})
    await ctx.heartbeat()


def says_once(ctx: TaskContext, log: str, gate: str) -> None:
    note(log, "start")
    while not Path(gate).exists():
        time.sleep(0.01)
    ctx.progress("half")
    while not ctx.is_cancelled:
        time.sleep(0.01)


async def completes_in_postgres(ctx: TaskContext, dsn: str, commit: bool) -> None:
    """Writes a row of its own and completes the task in the same transaction."""
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO effects VALUES ($1)", ctx.task_id)
        await ctx.complete_in(connection, {"by": "handler"})
        await (transaction.commit() if commit else transaction.rollback())
    finally:
        await connection.close()


async def completes_itself(ctx: TaskContext, connection: str) -> None:
    await ctx.complete_in(connection, "mine")


def registry() -> Registry:
    made = Registry()
    shared: tuple[Callable[..., Any], ...] = (
        noop,
        noop_thread,
        echo,
        typed,
        asleep,
        stubborn,
        busy_async,
        busy_thread,
        polite_thread,
        block_thread,
        add_up,
        poison,
        good,
        outcome,
        when,
        third_time_lucky,
        says_once,
        trap,
        reports,
        completes_itself,
        completes_in_postgres,
    )
    for handler in shared:
        made.add(define(handler.__name__, handler))
    made.add(define("in_process", in_process, process=True))
    made.add(define("quick_process", quick_process, process=True))
    return made


class Transactions(PostgresCallerTransactions):
    """Those of users on PostgreSQL; and a path stands for a transaction that is never committed."""

    async def complete(self, connection: Any, lease: LeaseRef, result: str | None) -> bool:
        if isinstance(connection, str):
            await asyncio.to_thread(Path(connection).write_text, f"{lease.id} {result}")
            return True
        return await super().complete(connection, lease, result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    runner_main(registry(), Transactions(), SystemClock(), parser.parse_args().fd)
