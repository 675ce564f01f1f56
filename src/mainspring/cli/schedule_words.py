"""The options of schedules on the command line, and schedules as text."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from mainspring.cli.inputs import parse_duration
from mainspring.cli.output import escaped, print_table, when
from mainspring.core.json_text import decode
from mainspring.core.schedule_view import Schedule
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import (
    FoldRule,
    GapRule,
    MisfireRule,
    OverlapRule,
)
from mainspring.domain.values import shown
from mainspring.ports.schedules import Tick

F = TypeVar("F", bound=Callable[..., Any])

_CALENDAR_BYTES_MAX: Final = 1 << 20
_DURATIONS: Final = frozenset(
    {"every", "jitter", "misfire_window", "misfire_tolerance", "start_deadline", "timeout"}
)


def timetable_options(command: F) -> F:
    """Add the options that say when a schedule fires."""
    for option in (
        click.option(
            "--fold",
            type=click.Choice([one.value for one in FoldRule]),
            help="When clocks go back.",
        ),
        click.option(
            "--gap",
            type=click.Choice([one.value for one in GapRule]),
            help="When clocks go forward.",
        ),
        click.option(
            "--exclusions",
            metavar="JSON|@FILE",
            help="Calendars of dates and patterns to leave out.",
        ),
        click.option("--end-at", metavar="ISO8601", help="The last time it may fire."),
        click.option("--start-at", metavar="ISO8601", help="The first time it may fire."),
        click.option("--timezone", metavar="Z", help="Zone of the cron fields (UTC)."),
        click.option("--at", metavar="ISO8601", help="Fire once, at this time."),
        click.option("--every", metavar="90s", help="Fire every so often: 90s, 5m, 2h, 1d."),
        click.option("--cron", metavar="EXPR", multiple=True, help="Cron expression; repeatable."),
    ):
        command = option(command)
    return command


def policy_options(command: F) -> F:
    """Add the options that say by which policies it fires."""
    for option in (
        click.option("--pause-after-failures", type=int, help="Pause after so many in a row."),
        click.option("--start-deadline", metavar="S", help="Drop runs not started within it."),
        click.option("--overlap-limit", type=int, help="Runs at a time (allow), or that may wait."),
        click.option(
            "--overlap",
            type=click.Choice([one.value for one in OverlapRule]),
            help="When the run before is unfinished (skip).",
        ),
        click.option("--misfire-tolerance", metavar="S", help="Lateness that is ordinary (30s)."),
        click.option("--misfire-limit", type=int, help="Most missed times to run (100)."),
        click.option("--misfire-window", metavar="S", help="Older times never run (24h)."),
        click.option(
            "--misfire",
            type=click.Choice([one.value for one in MisfireRule]),
            help="Missed times (run_once).",
        ),
        click.option("--max-runs", type=int, help="End after so many runs."),
        click.option("--jitter", metavar="S", help="Delay each run by up to this."),
    ):
        command = option(command)
    return command


def run_options(command: F) -> F:
    """Add the options that say what each run submits."""
    for option in (
        click.option("--labels", metavar="A,B=C", help="What its worker has to offer: gpu."),
        click.option("--webhook", metavar="URL", help="URL that is told when a run ends."),
        click.option(
            "--unique-key",
            metavar="K",
            help="While a task with it is live, its time is skipped and that task recorded.",
        ),
        click.option(
            "--group-key",
            metavar="K",
            help="What runs share starts and limits by with other tasks of their queue.",
        ),
        click.option("--backoff", metavar="KIND", help="exponential, linear or fixed."),
        click.option("--max-retries", type=int, help="Further attempts after a failure (3)."),
        click.option("--timeout", metavar="S", help="Longest an attempt may run (300s)."),
        click.option("--queue", metavar="Q", help="Queue to wait in (default)."),
        click.option("--priority", type=int, help="0, most urgent, to 10 (5)."),
        click.option("--payload", metavar="JSON|@FILE|-", help="The handler's parameters."),
    ):
        command = option(command)
    return command


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the words of the command line into the options of `ScheduleKeywords`."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value == ():
            continue
        if name in _DURATIONS:
            options[name] = parse_duration(value, name)
        elif name == "exclusions":
            options[name] = _calendars(value)
        else:
            options[name] = list(value) if isinstance(value, tuple) else value
    return options


def print_schedule(schedule: Schedule) -> None:
    """Write one schedule, a field a line."""
    for name, value in msgspec.structs.asdict(schedule).items():
        if value is None or value in ("", {}, ()):
            continue
        text = when(value) if name.endswith("_at") else value
        if isinstance(value, dict):
            text = msgspec.json.encode(value).decode()
        elif name == "waiting":
            text = ", ".join(when(moment) for moment in value)
        elif isinstance(value, msgspec.Struct):
            text = msgspec.json.encode(value).decode()
        click.echo(f"{name:<20} {escaped(str(text))}")


def print_schedules(found: list[Schedule]) -> None:
    """Write schedules as a table."""
    print_table(
        ("NAME", "TYPE", "STATUS", "NEXT", "RUNS", "MISSED", "SKIPPED", "WHEN"),
        (
            (
                one.name,
                one.task_type,
                "problem" if one.problem else one.status,
                when(one.next_at),
                one.runs,
                one.missed,
                sum(one.skipped.values()) - one.missed,
                f"{one.cron_expression or one.description} {one.timezone}",
            )
            for one in found
        ),
    )


def print_ticks(ticks: list[Tick]) -> None:
    """Write the history of a schedule as a table."""
    print_table(
        ("TIME", "OUTCOME", "KIND", "LATE", "TASK", "REASON"),
        (
            (
                when(tick.nominal_at),
                f"task {tick.task_status}" if tick.task_status else tick.outcome,
                tick.kind,
                f"{tick.lateness_seconds:.1f} s",
                tick.task_id or "-",
                _reason(tick),
            )
            for tick in ticks
        ),
    )


def _reason(tick: Tick) -> str:
    if tick.reason is None:
        return ""
    if tick.count == 1:
        return tick.reason
    more = "" if tick.is_exact else "at least "
    return f"{tick.reason}: {more}{tick.count} times until {when(tick.until_at)}"


def _calendars(text: str) -> list[Any]:
    raw: str | bytes = text
    if text.startswith("@"):
        try:
            raw = Path(text[1:]).read_bytes()
        except OSError as error:
            message = f"exclusions file {shown(text[1:])}: {error.strerror}"
            raise InvalidValue(message, field="exclusions") from None
    value = decode(raw, "exclusions", _CALENDAR_BYTES_MAX)
    return value if isinstance(value, list) else [value]
