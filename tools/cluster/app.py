"""The app that the workers of the cluster run."""

import asyncio
import json
import os
import time

from mainspring import Mainspring, TaskContext

LOG_VARIABLE = "CLUSTER_EXECUTIONS"
"""Names the file that handlers note what they do in; without it they note nothing."""

app = Mainspring()


def write_down(ctx: TaskContext, event: str) -> None:
    """Append one line with one system call, so that it survives any kill."""
    path = os.environ.get(LOG_VARIABLE)
    if not path:
        return
    noted = {"task": str(ctx.task_id), "event": event, "attempt": ctx.attempt, "at": time.time()}
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(noted) + "\n").encode())
    finally:
        os.close(descriptor)


@app.task("greet")
async def greet(name: str = "you") -> str:
    """Say hello."""
    return f"hello {name}"


@app.task("nap", max_retries=5)
async def nap(ctx: TaskContext, seconds: float = 0.0) -> int:
    """Take a while and return which attempt it was."""
    write_down(ctx, "start")
    await asyncio.sleep(seconds)
    write_down(ctx, "done")
    return ctx.attempt
