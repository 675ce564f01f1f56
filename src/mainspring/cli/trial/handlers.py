"""The handlers that the demo and the bench run; also a small example of how handlers look."""

from typing import Final

from mainspring.app import Mainspring
from mainspring.core.context import TaskContext
from mainspring.wiring.store import system_clock

CLOCK: Final = system_clock()

app = Mainspring()


@app.task("demo.greet")
async def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@app.task("demo.stamp")
async def stamp() -> float:
    """Return when it started, by a clock that all processes of the machine share."""
    return CLOCK.monotonic()


@app.task("demo.flaky", max_retries=5)
async def flaky(ctx: TaskContext, failures: int) -> str:
    """Fail so many times, then succeed."""
    if ctx.attempt <= failures:
        raise ConnectionError(f"attempt {ctx.attempt} does not get through")
    return f"through at attempt {ctx.attempt}"


@app.task("demo.double")
async def double(amount: str) -> int:
    """Double an amount; fails when it is no number."""
    return 2 * int(amount)


@app.task("demo.nap")
async def nap(seconds: float) -> None:
    """Sleep."""
    await CLOCK.sleep(seconds)


@app.task("demo.nap_once")
async def nap_once(ctx: TaskContext, seconds: float) -> str:
    """Sleep in the first attempt, and end at once in a later one."""
    if ctx.attempt == 1:
        await CLOCK.sleep(seconds)
    return f"done by attempt {ctx.attempt}"


@app.task("bench.noop")
async def noop() -> None:
    """Do nothing: what is measured is everything around it."""


@app.task("bench.tick")
async def tick() -> float:
    """Return the time at which it started."""
    return CLOCK.now().timestamp()
