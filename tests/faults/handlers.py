"""The app of the fault tests. Its handlers append what they do to a log that survives any kill.

A gate is a file: handlers wait until the test makes it, and find it again after any restart.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from mainspring import Backoff, Mainspring, StaleLease, TaskContext

LOG = "FAULT_LOG"
SOON = Backoff("fixed", base_seconds=0.05)  # type: ignore[arg-type]

app = Mainspring()


def write_line(path: str, record: dict[str, object]) -> None:
    """Append one record with one system call."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(record) + "\n").encode())
    finally:
        os.close(descriptor)


def log(ctx: TaskContext, event: str) -> None:
    record = {
        "event": event,
        "task": str(ctx.task_id),
        "attempt": ctx.attempt,
        "token": ctx.fencing_token,
        "pid": os.getpid(),
        "at": time.time(),
    }
    write_line(os.environ[LOG], record)


async def pass_gate(gate: str) -> None:
    is_open = Path(gate).exists
    while not is_open():  # noqa: ASYNC110 - the gate belongs to another process
        await asyncio.sleep(0.005)


@app.task("work", backoff=SOON)
async def work(ctx: TaskContext, seconds: float = 0.0) -> int:
    """Take a while and end well."""
    log(ctx, "start")
    await asyncio.sleep(seconds)
    log(ctx, "done")
    return ctx.attempt


@app.task("hold", backoff=SOON)
async def hold(
    ctx: TaskContext, gate: str, behind: str = "return", second_gate: str | None = None
) -> str:
    """In the first attempt wait at a gate, do what `behind` says and end. A later one ends at
    once, or waits at the second gate.
    """
    log(ctx, "start")
    try:
        if ctx.attempt == 1:
            await pass_gate(gate)
            await act(ctx, behind)
        elif second_gate is not None:
            await pass_gate(second_gate)
    except (asyncio.CancelledError, StaleLease) as error:
        if isinstance(error, StaleLease):
            log(ctx, "stale")
        log(ctx, "stopped")
        raise
    log(ctx, "done")
    return f"attempt {ctx.attempt}"


async def act(ctx: TaskContext, behind: str) -> None:
    """What a worker that was away for too long tries to do."""
    if behind == "fail":
        log(ctx, "stopped")
        raise ValueError("too late")
    if behind == "progress":
        await ctx.progress("too late")
        log(ctx, "told")
        await asyncio.Event().wait()
    if behind == "heartbeat":
        log(ctx, "asked")
        await ctx.heartbeat()


@app.task("linger", backoff=SOON)
async def linger(ctx: TaskContext, gate: str) -> str:
    """In every attempt wait at a gate; say when the wait was interrupted."""
    log(ctx, "start")
    try:
        await pass_gate(gate)
    except asyncio.CancelledError:
        log(ctx, "stopped")
        raise
    log(ctx, "done")
    return f"attempt {ctx.attempt}"
