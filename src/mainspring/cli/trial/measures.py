"""What `mainspring bench` measures, one function each."""

import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from mainspring.app import Mainspring
from mainspring.app_tasks import TaskCall
from mainspring.cli.trial.handlers import CLOCK, noop, tick
from mainspring.domain.errors import MainspringError
from mainspring.domain.priority import WEIGHTS, Level
from mainspring.domain.status import TaskStatus

RUN_QUEUE: Final = "bench-run"
STORE_QUEUE: Final = "bench-store"
"""No worker serves this one."""

ROUNDS: Final = 3
SECONDS_EACH: Final = 2.0
CALLERS: Final = 32
TICKS_PER_S: Final = 500
TICK_SECONDS: Final = 10.0
_LEAD_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 300.0
_TAIL: Final = 200
_FUTURE_SECONDS: Final = 30 * 86400.0
_WAITING_PRIORITY: Final = 10
_OUR_PRIORITY: Final = 5


async def submit_rate(tasks: int) -> float:
    """Return tasks stored a second when they are submitted many at a time."""
    call = noop.options(queue=STORE_QUEUE)
    rates: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await _submit_all(call, tasks)
        rates.append(tasks / (time.perf_counter() - began))
    return statistics.median(rates)


async def call_rate(app: Mainspring, callers: int) -> float:
    """Return tasks stored a second by so many callers, each of whom waits for its own."""
    call = noop.options(queue=STORE_QUEUE)
    rates: list[float] = []

    async def one_after_another(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            await app.submit(call.build())
            count += 1
        return count

    for _ in range(ROUNDS):
        began = time.perf_counter()
        until = began + SECONDS_EACH
        counts = await asyncio.gather(*(one_after_another(until) for _ in range(callers)))
        rates.append(sum(counts) / (time.perf_counter() - began))
    return statistics.median(rates)


async def life_cycle_rates(
    app: Mainspring, tasks: int, *, rounds: int = ROUNDS, has_backlog: bool = False
) -> list[float]:
    """Return tasks submitted, run and completed a second, while submitting and running overlap.

    With a backlog of batch work the worker gives that its share beside ours, which counts: the
    rate is that of all tasks.
    """
    share = 1.0
    if has_backlog:
        share = WEIGHTS[Level.NORMAL] / (WEIGHTS[Level.NORMAL] + WEIGHTS[Level.LOW])
    call = noop.options(queue=RUN_QUEUE, priority=_OUR_PRIORITY)
    rates: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        ids = await _submit_all(call, tasks)
        await _all_completed(app, ids)
        rates.append(tasks / share / (time.perf_counter() - began))
    return rates


async def lateness_ms(
    app: Mainspring, clock_offset: float, *, seconds: float = TICK_SECONDS
) -> dict[str, float]:
    """Return how late the handlers of scheduled tasks start, in ms: median, p99 and maximum.

    `clock_offset` is how far this machine's clock is ahead of the database's, in seconds.
    """
    start = CLOCK.now() + timedelta(seconds=_LEAD_SECONDS - clock_offset)
    count = int(TICKS_PER_S * seconds)
    built = [
        tick.options(
            queue=RUN_QUEUE, at=start + timedelta(seconds=number / TICKS_PER_S), priority=1
        ).build()
        for number in range(count)
    ]
    handles = await app.submit_many(built)
    await CLOCK.sleep(_LEAD_SECONDS + seconds)
    ids = [handle.id for handle in handles]
    await _all_completed(app, ids)
    wanted = set(ids)
    late = [
        (task.result - clock_offset - task.scheduled_at.timestamp()) * 1000
        async for task in app.tasks(task_type=tick.name, limit=2 * count)
        if task.task_id in wanted and isinstance(task.result, float)
    ]
    late.sort()
    if len(late) < count:
        raise MainspringError(f"only {len(late)} of {count} scheduled tasks could be read back")
    return {
        "p50": round(_percentile(late, 0.50), 1),
        "p99": round(_percentile(late, 0.99), 1),
        "max": round(late[-1], 1),
    }


async def fill(*, pending: int, waiting: int) -> None:
    """Store tasks for the far future and tasks that are due, in the queue that is measured."""
    later = noop.options(queue=RUN_QUEUE, delay=_FUTURE_SECONDS)
    due = noop.options(queue=RUN_QUEUE, priority=_WAITING_PRIORITY)
    for call, count in ((later, pending), (due, waiting)):
        await _submit_all(call, count)


async def empty(app: Mainspring, queue: str) -> None:
    """Cancel whatever still waits in a queue."""
    session = await app.sessions.current()
    for status in (TaskStatus.PENDING, TaskStatus.RETRYING):
        ids = [task.task_id async for task in app.tasks(status=status, queue=queue)]
        for at in range(0, len(ids), 1000):
            await session.lifecycle.cancel(ids[at : at + 1000], "mainspring bench")


async def idle_cpu_percent(pid: int, seconds: float = 5.0) -> float | None:
    """Return the share of one core that an idle process and its children use; None if unknown."""
    before = _cpu_seconds(pid)
    await CLOCK.sleep(seconds)
    after = _cpu_seconds(pid)
    if before is None or after is None:
        return None
    return round((after - before) / seconds * 100, 2)


async def _submit_all(call: TaskCall[...], count: int) -> list[UUID]:
    """Submit so many tasks, each batch while the next is made."""
    return sorted(handle.id for handle in await call.submit_many({} for _ in range(count)))


async def _all_completed(app: Mainspring, ids: Sequence[UUID]) -> None:
    """Wait until tasks have completed. Those of one priority end in order, so the last ones tell;
    a look at all of them confirms it.
    """
    session = await app.sessions.current()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await asyncio.gather(*(session.waiting.wait(one) for one in ids[-_TAIL:]))
        left = list(ids)
        while left:
            found: dict[UUID, TaskStatus] = {}
            for at in range(0, len(left), 1000):
                found |= await session.store.statuses(left[at : at + 1000])
            left = [one for one in left if found.get(one) is not TaskStatus.COMPLETED]
            if left:
                await CLOCK.sleep(0.01)


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _cpu_seconds(pid: int) -> float | None:
    """Sum the processor time of a process and all below it, from /proc."""
    try:
        stats = {
            int(path.parent.name): path.read_text() for path in Path("/proc").glob("[0-9]*/stat")
        }
    except OSError:
        return None
    fields = {one: text.rpartition(")")[2].split() for one, text in stats.items()}
    if pid not in fields:
        return None
    family = {pid}
    while grown := {one for one, part in fields.items() if int(part[1]) in family} - family:
        family |= grown
    return sum(int(fields[one][11]) + int(fields[one][12]) for one in family) / _TICKS


_TICKS: Final = 100
"""Units a second of the times in /proc/PID/stat; fixed on Linux."""
