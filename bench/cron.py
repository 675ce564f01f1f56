"""How long the pure parts of schedules take: next times, looks back, parsing, refusals, plans.

Run with ``python bench/cron.py``. Prints one line for each measurement: microseconds of processor
time, the best of several rounds, which is what the code costs and not what else the machine did.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from mainspring.domain.cron import CronExpression, InvalidCron, parse_cron
from mainspring.domain.cron.grammar import parse_fields
from mainspring.domain.cron.match import WallMatcher
from mainspring.domain.schedule import ScheduleSpec, create, plan

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2100, 1, 1, tzinfo=UTC)
ROUNDS = 7
EXPRESSIONS = [
    ("* * * * *", "UTC"),
    ("*/5 * * * *", "America/New_York"),
    ("30 2 * * *", "America/New_York"),
    ("0 9-17 * * MON-FRI", "America/New_York"),
    ("0 5 LW * *", "Europe/Berlin"),
    ("0 0 L-3W,15W * FRI#2", "Europe/Berlin"),
    ("0 0 29 2 *", "Europe/Berlin"),
    ("0 0 * 2 MON#5", "Europe/Berlin"),
]
HOSTILE = [
    "1," * 50_000 + "1 * * * *",
    "0 0 31 2,4,6,9,11 *",
    "* * 30,31 2 */2",
    ",".join(f"{n}W" for n in range(30, 32)) + " 0 L-30 2 *",
    "0 0 " + ",".join(["L-29W", "L-30W"] * 10) + " 2 *",
]


def microseconds(work: Callable[[], object], calls: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, (time.process_time() - started) / calls)
    return best * 1e6


def next_times(cron: CronExpression) -> Callable[[], object]:
    instant = START

    def work() -> None:
        nonlocal instant
        found = cron.next_after(instant)
        instant = START if found is None or found > END else found

    return work


def refused(text: str) -> Callable[[], object]:
    def work() -> None:
        try:
            CronExpression.parse(text)
        except InvalidCron:
            return
        raise AssertionError(text)

    return work


def show(name: str, value: float) -> None:
    print(f"{value:10.1f} us  {name}")


def main() -> None:
    for text, zone in EXPRESSIONS:
        cron = parse_cron(text, zone)
        show(f"next_after, iterating   {text}  {zone}", microseconds(next_times(cron), 2_000))
    cron = parse_cron("*/5 * * * *", "America/New_York")
    for name, instant in (
        ("just before a gap", datetime(2026, 3, 8, 6, 58, tzinfo=UTC)),
        ("in the first pass of an overlap", datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
        ("in the second pass of an overlap", datetime(2026, 11, 1, 6, 30, tzinfo=UTC)),
    ):
        show(f"next_after {name}", microseconds(partial(cron.next_after, instant), 1_000))
    show("previous_before", microseconds(lambda: cron.previous_before(START), 200))
    fields = parse_fields("0 9-17 * * MON-FRI")
    show("parse, not remembered", microseconds(lambda: parse_fields("0 9-17 * * MON-FRI"), 500))
    show("compile, not remembered", microseconds(lambda: WallMatcher(fields), 500))
    for text in HOSTILE:
        show(f"refuse {text[:40]}", microseconds(refused(text), 20))
    state = create("s", ScheduleSpec(crons=("30 2 * * *",), timezone="Europe/Berlin"), START)
    due = state.next_nominal
    assert due is not None
    show("plan one due schedule", microseconds(lambda: plan(state, due), 1_000))
    minutely = create("s", ScheduleSpec(crons=("* * * * *",)), START)
    day_later = START + timedelta(hours=23, seconds=50)
    show("plan after a day of outage", microseconds(lambda: plan(minutely, day_later), 20))


if __name__ == "__main__":
    main()
