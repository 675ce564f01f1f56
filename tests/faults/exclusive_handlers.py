"""The app of the fault tests of locks."""

import asyncio

from faults.handlers import SOON, log, pass_gate
from mainspring import Mainspring, TaskContext

app = Mainspring()


@app.task("alone", backoff=SOON, exclusive=True)
async def alone(ctx: TaskContext, gate: str) -> None:
    """Wait at a gate; say when the wait was interrupted."""
    log(ctx, "start")
    try:
        await pass_gate(gate)
    except asyncio.CancelledError:
        log(ctx, "stopped")
        raise
    log(ctx, "done")


@app.task("in_turn", backoff=SOON)
async def in_turn(ctx: TaskContext, seconds: float) -> int:
    """Do something that two must not do at once."""
    async with ctx.lock("one at a time", ttl=5) as lock:
        log(ctx, "enter")
        await asyncio.sleep(seconds)
        log(ctx, "leave")
        return lock.number
