"""`mainspring demo`: a real scenario on a throw-away installation."""

import asyncio
import signal
from types import FrameType
from typing import Final, NoReturn

import click

from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.options import json_option
from mainspring.cli.output import note, print_json, print_table
from mainspring.cli.trial.handlers import app
from mainspring.cli.trial.result import Result
from mainspring.cli.trial.scenario import WEIGHED_QUEUE, Scenario
from mainspring.cli.trial.stack import throw_away_installation
from mainspring.config import Settings, export
from mainspring.wiring.store import system_clock

APP_NAME: Final = "mainspring.cli.trial.handlers:app"


@click.command()
@json_option
def demo(*, as_json: bool) -> int:
    """Start everything on a throw-away directory, run a scenario and show what happened.

    Exit status 0 only if every part did what it should.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    results = asyncio.run(_run(as_json=as_json))
    if not as_json:
        print_table(
            ("CHECK", "EXPECTED", "OBSERVED", "OK"),
            (
                (result.check, result.expected, result.observed, "yes" if result.ok else "NO")
                for result in results
            ),
        )
    return EXIT_DONE if all(result.ok for result in results) else EXIT_FAILED


async def _run(*, as_json: bool) -> list[Result]:
    # Short leases, so that the death of a worker is noticed within the patience of a reader.
    settings = Settings(
        app=APP_NAME, lease_seconds=3, heartbeat_seconds=1, processes=1, log_level="error"
    )
    note("starting PostgreSQL, scheduler and worker on a throw-away directory ...")
    clock = system_clock()
    began = clock.monotonic()
    results: list[Result] = []
    async with throw_away_installation(settings, "--queues", f"default,{WEIGHED_QUEUE}") as (
        own,
        _,
    ):
        note(f"ready after {clock.monotonic() - began:.1f} s; running the scenario ...")
        export(own)
        async with app:
            async for result in Scenario(app, own).results():
                results.append(result)
                if as_json:
                    print_json(result)
                else:
                    note(f"  {'ok' if result.ok else 'FAILED':<6} {result.check}")
    note(f"done after {clock.monotonic() - began:.1f} s")
    return results


def _interrupt(sign: int, frame: FrameType | None) -> NoReturn:
    """Let SIGTERM clean up as Ctrl-C does."""
    del sign, frame
    raise KeyboardInterrupt
