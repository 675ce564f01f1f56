"""`mainspring bench`: measures this installation."""

import contextlib
import dataclasses
import os
import platform
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from mainspring import __version__
from mainspring.cli.exits import EXIT_DONE, EXIT_FAILED
from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import note, print_json
from mainspring.cli.trial.baseline import (
    DEFAULT_PATH,
    compare,
    is_comparable,
    read_baseline,
    write_baseline,
)
from mainspring.cli.trial.handlers import app
from mainspring.cli.trial.measures import (
    CALLERS,
    RUN_QUEUE,
    STORE_QUEUE,
    call_rate,
    empty,
    fill,
    idle_cpu_percent,
    lateness_ms,
    life_cycle_rates,
    submit_rate,
)
from mainspring.cli.trial.stack import Program, start_program, throw_away_installation
from mainspring.config import Settings, export
from mainspring.wiring.checkup import facts_of, old_snapshot
from mainspring.wiring.store import system_clock
from mainspring.wiring.yardstick import reference_rate

APP_NAME: Final = "mainspring.cli.trial.handlers:app"
SNAPSHOT_SECONDS: Final = 60.0
REFERENCE_ROUNDS: Final = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure."""

    tasks: int
    pending: int
    waiting: int
    held_snapshot: bool
    as_json: bool


@click.command()
@click.option("--tasks", type=click.IntRange(100, 10_000_000), default=20_000, show_default=True)
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option("--pending", type=click.IntRange(0), default=0, help="Future tasks beside.")
@click.option("--waiting", type=click.IntRange(0), default=0, help="Due batch tasks beside.")
@click.option(
    "--held-snapshot",
    is_flag=True,
    help="Measure the life cycle again while a session holds a snapshot that is 60 s old.",
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Figures of an earlier version to compare with; {DEFAULT_PATH} if that is there.",
)
@click.option(
    "--check", is_flag=True, help="Fail when a figure is worse than the baseline beyond the noise."
)
@click.option(
    "--save-baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the figures as the baseline of later versions.",
)
@json_option
@store_options
def bench(
    *,
    tasks: int,
    processes: int,
    pending: int,
    waiting: int,
    held_snapshot: bool,
    baseline: Path | None,
    check: bool,
    save_baseline: Path | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> int:
    """Measure submit rate, life-cycle rate and lateness, with a worker as real processes.

    Runs on the configured database, else on a throw-away PostgreSQL of its own. Rates are medians
    of three rounds. Each rate is also given as a ratio to a fixed piece of work that is measured in
    the same run, and compared with that of an earlier version.
    """
    settings = database_settings_of(
        database_url=database_url, data_dir=data_dir, processes=processes
    )
    plan = Plan(
        tasks=tasks,
        pending=pending,
        waiting=waiting,
        held_snapshot=held_snapshot,
        as_json=as_json,
    )
    # The app of the bench, and no other that may be configured.
    settings = dataclasses.replace(settings, app=APP_NAME, log_level="error", queues=(), levels=())
    report = uvloop.run(_run(settings, plan))
    if as_json:
        print_json(report)
    else:
        _print(report)
    if save_baseline is not None:
        write_baseline(save_baseline, report)
    is_slower = _compare(report, baseline, is_asked_for=baseline is not None or check)
    return EXIT_FAILED if check and is_slower else EXIT_DONE


def _compare(report: dict[str, Any], path: Path | None, *, is_asked_for: bool) -> bool:
    """Show how the figures compare with the baseline; True if one is worse beyond the noise."""
    path = DEFAULT_PATH if path is None else path
    if not is_asked_for and not path.exists():
        return False
    before = read_baseline(path)
    if not is_comparable(report, before):
        note(f"not compared with {path}: that was measured with {before.plan}")
        return is_asked_for
    found = compare(report, before)
    note(f"compared with version {before.mainspring}, as ratios to the fixed work:")
    for one in found:
        verdict = "REGRESSION" if one.is_regression else "ok"
        note(f"  {one.figure:<30} {one.before:>9.3f} {one.now:>9.3f} {one.change:>7}  {verdict}")
    return any(one.is_regression for one in found)


async def _run(settings: Settings, plan: Plan) -> dict[str, Any]:
    async with _installation(settings) as own:
        export(own)
        async with app:
            try:
                return await _measure(own, plan)
            finally:
                for queue in (STORE_QUEUE, RUN_QUEUE):
                    await app.resume_queue(queue)
                    if settings.database_url:
                        await empty(app, queue)


@contextlib.asynccontextmanager
async def _installation(settings: Settings) -> AsyncIterator[Settings]:
    if settings.database_url:
        yield settings
        return
    note("starting a throw-away PostgreSQL ...")
    idle_queue = ("--queues", "bench-none")
    async with throw_away_installation(settings, *idle_queue) as (own, _):
        yield own


async def _measure(settings: Settings, plan: Plan) -> dict[str, Any]:
    facts = await facts_of(settings)
    offset = 0.0 if _is_local(settings) else (system_clock().now() - facts.now).total_seconds()
    before = await _reference(settings)
    note("submitting ...")
    report: dict[str, Any] = {
        "submit_per_s": round(await submit_rate(plan.tasks)),
        "submit_single_per_s": round(await call_rate(app, 1)),
        f"submit_{CALLERS}_callers_per_s": round(await call_rate(app, CALLERS)),
    }
    await app.pause_queue(RUN_QUEUE)
    if plan.pending or plan.waiting:
        note(f"storing {plan.pending:,} future and {plan.waiting:,} due tasks ...")
        await fill(pending=plan.pending, waiting=plan.waiting)
    worker = await _worker(settings)
    try:
        await worker.ready("worker runs")
        await app.resume_queue(RUN_QUEUE)
        report |= await _measure_worker(settings, plan, worker, offset)
    finally:
        await worker.stop()
    report["reference_per_s"] = round((before + await _reference(settings)) / 2)
    report["settings"] = {
        "mainspring": __version__,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "postgresql": facts.version,
        "fsync": facts.fsync,
        "full_page_writes": facts.full_page_writes,
        "synchronous_commit": facts.synchronous_commit,
        "tasks": plan.tasks,
        "processes": settings.processes,
        "pending": plan.pending,
        "waiting": plan.waiting,
    }
    return report


async def _reference(settings: Settings) -> float:
    note("doing the fixed work that rates are compared with ...")
    return statistics.median([await reference_rate(settings) for _ in range(REFERENCE_ROUNDS)])


async def _measure_worker(
    settings: Settings, plan: Plan, worker: Program, offset: float
) -> dict[str, Any]:
    has_backlog = plan.waiting > 0
    note("running ...")
    await life_cycle_rates(app, 1000, rounds=1, has_backlog=has_backlog)
    rates = await life_cycle_rates(app, plan.tasks, has_backlog=has_backlog)
    report: dict[str, Any] = {"life_cycle_per_s": round(statistics.median(rates))}
    if plan.held_snapshot:
        report["life_cycle_under_snapshot_per_s"] = round(await _under_snapshot(settings, plan))
    note("waiting for scheduled tasks ...")
    report["lateness_ms"] = await lateness_ms(app, offset)
    if not has_backlog:
        report["idle_worker_cpu_percent"] = await idle_cpu_percent(worker.process.pid)
    return report


async def _under_snapshot(settings: Settings, plan: Plan) -> float:
    """Work for a minute while the snapshot is held, so that dead rows gather, then measure."""
    note(f"running under a held snapshot for {SNAPSHOT_SECONDS:.0f} s ...")
    has_backlog = plan.waiting > 0
    async with old_snapshot(settings):
        until = time.perf_counter() + SNAPSHOT_SECONDS
        while time.perf_counter() < until:
            await life_cycle_rates(app, plan.tasks, rounds=1, has_backlog=has_backlog)
        return statistics.median(await life_cycle_rates(app, plan.tasks, has_backlog=has_backlog))


async def _worker(settings: Settings) -> Program:
    return await start_program(settings, "worker", "--queues", RUN_QUEUE)


def _is_local(settings: Settings) -> bool:
    return "host=/" in settings.database_url or "@/" in settings.database_url


def _print(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            click.echo(f"{name}")
            for part, one in value.items():
                click.echo(f"  {part:<28} {one}")
        else:
            text = f"{value:,}" if isinstance(value, int) else str(value)
            click.echo(f"{name:<30} {text}")
