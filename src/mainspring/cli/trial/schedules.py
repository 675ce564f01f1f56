"""What the demo shows of schedules."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from mainspring.app import Mainspring
from mainspring.cli.trial.handlers import CLOCK, greet
from mainspring.cli.trial.result import Result
from mainspring.domain.status import TaskStatus
from mainspring.ports.schedules import Tick, TickOutcome

ZONE: Final = "Europe/Berlin"
_LATE_SECONDS_MAX: Final = 1.0
_RUNS: Final = 3
_PATIENCE_SECONDS: Final = 40.0
_WAIT_SECONDS_MAX: Final = 20.0
_POLL_SECONDS: Final = 0.1
_EVERY: Final = timedelta(seconds=2)


async def interval_schedule(app: Mainspring) -> Result:
    """A schedule fires at its times, each once and none late."""
    await app.schedules.create("demo.every", greet, {"name": "again"}, every=_EVERY)
    ticks = await _runs(app, "demo.every", _RUNS)
    await app.schedules.delete("demo.every")
    times = sorted(tick.nominal_at for tick in ticks)
    states = [await app.get(tick.task_id) for tick in ticks if tick.task_id is not None]
    late = max(
        (state.started_at - state.nominal_at).total_seconds()
        for state in states
        if state.started_at is not None and state.nominal_at is not None
    )
    is_even = all(later - time == _EVERY for time, later in pairwise(times))
    how = "2 s apart" if is_even else "unevenly"
    return Result(
        "a schedule every 2 s",
        f"{_RUNS} runs 2 s apart, 0 to {_LATE_SECONDS_MAX:g} s after their times",
        f"{len(times)} runs {how}, at most {late * 1000:+.0f} ms",
        ok=len(times) == _RUNS and is_even and 0 <= late <= _LATE_SECONDS_MAX,
    )


async def cron_schedule(app: Mainspring) -> Result:
    """A cron schedule fires on its minute. When that is too far away for a demo, the minute before
    is backfilled, which is the same run for a time that has passed.
    """
    made = await app.schedules.create(
        "demo.cron", greet, {"name": "Berlin"}, cron="* * * * *", timezone=ZONE
    )
    assert made.next_at is not None
    assert made.updated_at is not None
    minute = made.next_at
    is_near = (minute - made.updated_at).total_seconds() <= _WAIT_SECONDS_MAX
    if not is_near:
        minute -= timedelta(minutes=1)
        await app.schedules.backfill("demo.cron", minute, made.next_at)
    ticks = await _runs(app, "demo.cron", 1)
    state = await app.wait(str(ticks[0].task_id), _PATIENCE_SECONDS)
    await app.schedules.delete("demo.cron")
    preview = await app.schedules.preview(
        cron="* * * * *", timezone=ZONE, after=minute - timedelta(seconds=1), count=1
    )
    local = preview.next[0].local.isoformat()
    how = "on its minute" if is_near else "its last minute, backfilled"
    return Result(
        f"a cron schedule, * * * * * in {ZONE}",
        f"one run for {local}",
        f"{state.status} run for {local}, {how}"
        if state.nominal_at == minute
        else f"{state.status} run for {state.nominal_at}",
        ok=state.status is TaskStatus.COMPLETED and state.nominal_at == minute and len(ticks) == 1,
    )


async def clock_change(app: Mainspring) -> Result:
    """A preview across a clock change: the hour that is missing is not lost."""
    preview = await app.schedules.preview(
        cron="30 2 * * *", timezone=ZONE, after=datetime(2026, 3, 27, 12, tzinfo=UTC), count=3
    )
    expected = "28 02:30+0100, 29 03:00+0200, 30 02:30+0200"
    observed = ", ".join(f"{time.local:%d %H:%M%z}" for time in preview.next)
    return Result(
        "30 2 * * * when clocks go forward, March 2026", expected, observed, ok=observed == expected
    )


async def _runs(app: Mainspring, name: str, count: int) -> list[Tick]:
    """Wait until so many runs of a schedule have completed and return the first of them."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            ticks = [
                tick
                for tick in await app.schedules.history(name)
                if tick.outcome is TickOutcome.TASK and tick.task_status == TaskStatus.COMPLETED
            ]
            if len(ticks) >= count:
                return sorted(ticks, key=lambda tick: tick.nominal_at)[:count]
            await CLOCK.sleep(_POLL_SECONDS)
