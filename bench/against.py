"""Mainspring beside its peers: the same jobs, interleaved in one session, ratios first.

    python -m bench.against --peers pgqueuer,procrastinate --rounds 3
    python -m bench.against --quick

Results go to `bench/.runs/against` (or --out): JSON for each part as it finishes, a table in
Markdown and charts as SVG. Started again it goes on where it stopped.
"""

import argparse
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.harness.backlog import future_tasks
from bench.harness.board import remove_boards
from bench.harness.contestants import CONTESTANTS, Contestant, chosen
from bench.harness.drawing import bars
from bench.harness.environments import python_of, versions_of
from bench.harness.meters import NOISY_SHARE
from bench.harness.places import RUNS
from bench.harness.processes import end_in_order_on_sigterm
from bench.harness.recovery import LIMIT_SECONDS, Case, cases_of, kill_and_watch
from bench.harness.results import Results, machine, medians, shown, table
from bench.harness.round import play, sizes_of
from bench.harness.servers import Servers, running_servers
from bench.harness.singles import singles

OURS: Final = "mainspring"
EVERYBODY: Final = ",".join(
    contestant.name for contestant in CONTESTANTS if contestant.name != OURS
)
ROUNDS: Final = 3
QUICK_SCALE: Final = 0.25
_RATES: Final = (
    ("submit_single", "submit, one awaited after the other"),
    ("submit_concurrent", "submit, 32 callers"),
    ("submit_bulk", "submit, in bulk"),
    ("drain_1", "drain, 1 worker"),
    ("drain_2", "drain, 2 workers"),
    ("life_1", "life cycle, 1 worker"),
    ("life_2", "life cycle, 2 workers"),
)


def measure(
    part: str,
    contestants: list[Contestant],
    results: Results,
    servers: Servers,
    *,
    rounds: int = ROUNDS,
    scale: float = 1.0,
) -> None:
    """Play rounds in turn: A B C, A B C, ...; a disturbed round is played once more."""
    for round_number in range(1, rounds + 1):
        for contestant in contestants:
            number = CONTESTANTS.index(contestant)
            sizes = sizes_of(contestant, scale=scale)
            with_idle = round_number == 1
            step = f"{contestant.name}/{round_number}"

            work = partial(play, contestant, servers, number, sizes, with_idle=with_idle)
            outcome = results.once(part, step, work)
            if _is_noisy(outcome) and scale >= 1:
                outcome = results.once(part, f"{step}/again", work)
            print(f"{part}: {step}: {_summary(outcome)}", flush=True)


def measure_singles(
    part: str,
    contestants: list[Contestant],
    results: Results,
    servers: Servers,
    *,
    scale: float = 1.0,
) -> None:
    """Measure submissions one after the other, by turns of a fraction of a second."""
    outcome = results.once("singles", part, partial(singles, contestants, servers, scale=scale))
    for name, figures in outcome.items():
        print(f"{part}: submit one: {name}: {figures}", flush=True)


def measure_future(
    contestants: list[Contestant], results: Results, servers: Servers, *, scale: float = 1.0
) -> None:
    """Measure workers beside many future tasks."""
    for contestant in [one for one in contestants if one.sees_others]:
        count = max(1000, int(contestant.future * scale))
        number = CONTESTANTS.index(contestant)
        outcome = results.once(
            "future",
            contestant.name,
            partial(future_tasks, contestant, servers, number, count),
        )
        print(f"future: {contestant.name}: {outcome}", flush=True)


def measure_kills(
    contestants: list[Contestant], results: Results, *, limit: float = LIMIT_SECONDS
) -> None:
    """Kill workers one after the other is too slow to watch, so all cases run side by side."""
    cases = cases_of(contestants)
    if all(case.label in results.read("kills") for case in cases):
        return
    outcomes = side_by_side(cases, limit)
    results.write("kills", {**results.read("kills"), **outcomes})
    for label, outcome in outcomes.items():
        print(f"kills: {label}: {outcome}", flush=True)


def side_by_side(cases: list[Case], limit: float) -> dict[str, Any]:
    """Run kill cases in threads; they wait nearly all the time."""

    def guarded(number: int, servers: Servers) -> dict[str, Any]:
        try:
            return kill_and_watch(cases[number], servers, 20 + number, limit=limit)
        except (RuntimeError, OSError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}

    with running_servers("kills") as servers, ThreadPoolExecutor(len(cases)) as pool:
        running = [pool.submit(guarded, number, servers) for number in range(len(cases))]
        return {case.label: one.result() for case, one in zip(cases, running, strict=True)}


def _is_noisy(outcome: Mapping[str, Any]) -> bool:
    foreign = outcome.get("foreign", {})
    return any(share > NOISY_SHARE for share in foreign.values())


def _summary(outcome: Mapping[str, Any]) -> str:
    parts = [f"{name} {shown(outcome[name])}" for name, _ in _RATES if name in outcome]
    parts += [
        f"{name} p99 {value['p99']} ms"
        for name, value in outcome.items()
        if name.startswith("late_") and isinstance(value, Mapping)
    ]
    if _is_noisy(outcome):
        parts.append(f"NOISY {max(outcome['foreign'].values()):.0%}")
    parts += [
        f"{k}={v}" for k, v in outcome.items() if k.endswith(("error", "failed", "unfinished"))
    ]
    return ", ".join(parts)


def summarise(results: Results) -> dict[str, dict[str, Any]]:
    """Return the medians of every contestant; quiet rounds count before disturbed ones."""
    rounds: dict[str, list[Mapping[str, Any]]] = {}
    for part in ("headline", "others"):
        for step, outcome in results.read(part).items():
            if "failed" not in outcome:
                rounds.setdefault(f"{step.split('/')[0]}", []).append(outcome)
    summary: dict[str, dict[str, Any]] = {}
    for name, played in rounds.items():
        quiet = [one for one in played if not _is_noisy(one)]
        used = quiet if len(quiet) >= min(ROUNDS, len(played)) else played
        summary[name] = {**medians(used), "rounds": len(used), "quiet": len(quiet)}
    for outcome in results.read("singles").values():
        for name, figures in outcome.items():
            if name in summary:
                summary[name] = {**figures, **summary[name]}
    return summary


def report(results: Results) -> str:
    """Return the report in Markdown and write the charts."""
    summary = summarise(results)
    if OURS not in summary:
        return "nothing was measured"
    facts = results.read("facts")
    sections = [
        "# Mainspring beside its peers",
        _facts(facts),
        "## How many times as fast (ours / theirs)",
        _ratios(summary),
        "## Rates, a second",
        _rates(summary),
        "## Scheduled tasks: start after the due time, ms",
        _lateness(summary),
        "## Processor time a task, microseconds",
        _cpu(summary),
    ]
    if kills := results.read("kills"):
        sections += ["## After `kill -9` of the worker", _table_of(kills)]
    if future := results.read("future"):
        sections += ["## Beside future tasks", _table_of(future)]
    text = "\n\n".join(sections) + "\n"
    (results.directory / "report.md").write_text(text)
    _draw(summary, results.directory)
    return text


def _facts(facts: Mapping[str, Any]) -> str:
    lines = [f"* {name}: {value}" for name, value in facts.get("machine", {}).items()]
    lines += [f"* {name}: {value}" for name, value in facts.get("servers", {}).items()]
    lines += [
        f"* {name}: {', '.join(f'{k} {v}' for k, v in one['versions'].items())}; {one['settings']}"
        for name, one in facts.get("contestants", {}).items()
    ]
    return "\n".join(lines)


def _best(figures: Mapping[str, Any], *names: str) -> float | None:
    found = [figures[name] for name in names if name in figures]
    return max(found) if found else None


def _ratios(summary: Mapping[str, Mapping[str, Any]]) -> str:
    ours = summary[OURS]
    rows = []
    for name, theirs in summary.items():
        if name == OURS:
            continue
        row: list[object] = [name]
        row += [
            _ratio(ours, theirs, *jobs) for jobs in (("life_1", "life_2"), ("drain_1", "drain_2"))
        ]
        # The ratio of each turn, which says more than that of the medians.
        ahead = theirs.get("submit_single_ahead")
        row.append(f"{ahead:.2f}" if ahead else None)
        row += [_ratio(ours, theirs, job) for job in ("submit_concurrent", "submit_bulk")]
        late, mine = _late(theirs), ours.get("late_500")
        row.append(f"{late['p99'] / mine['p99']:.1f}" if late and mine and mine["p99"] else None)
        rows.append(row)
    head = ("peer", "life cycle", "drain", "submit one", "submit x32", "submit bulk", "p99 late")
    return table(head, rows)


def _ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any], *jobs: str) -> str | None:
    mine, other = _best(ours, *jobs), _best(theirs, *jobs)
    return f"{mine / other:.1f}" if mine and other else None


def _late(figures: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name, value in figures.items():
        if name.startswith("late_") and isinstance(value, Mapping) and not math.isnan(value["p99"]):
            return value
    return None


def _rates(summary: Mapping[str, Mapping[str, Any]]) -> str:
    names = [name for name, _ in _RATES]
    rows = [
        [name, *(figures.get(one) for one in names), f"{figures['quiet']}/{figures['rounds']}"]
        for name, figures in summary.items()
    ]
    return table(("", *(label for _, label in _RATES), "quiet rounds"), rows)


def _lateness(summary: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, figures in summary.items():
        for job, value in figures.items():
            if job.startswith("late_") and isinstance(value, Mapping):
                row = [name, f"{job[5:]}/s", *(value[k] for k in ("p50", "p99", "max", "min"))]
                rows.append([*row, f"{value['ran']:.0f}/{value['of']:.0f}"])
    return table(("", "rate", "p50", "p99", "max", "min", "ran"), rows)


def _cpu(summary: Mapping[str, Mapping[str, Any]]) -> str:
    jobs = ("submit_bulk_client", "submit_bulk_store", "drain_1_worker", "drain_1_store")
    labels = ("client, bulk", "store, bulk", "worker, drain", "store, drain")
    extra = ("worker_megabytes", "idle_worker_percent", "idle_store_percent")
    rows = [
        [name, *(figures.get(f"{job}_us") for job in jobs), *(figures.get(one) for one in extra)]
        for name, figures in summary.items()
    ]
    return table(("", *labels, "worker MB", "idle worker %", "idle store %"), rows)


def _table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for one in found.values() for name in one))
    return table(("", *names), [[label, *map(one.get, names)] for label, one in found.items()])


def _draw(summary: Mapping[str, Mapping[str, Any]], directory: Path) -> None:
    jobs = {
        "life": ("Life cycle: submitted, run and completed", ("life_1", "life_2")),
        "drain": ("Drain: run and completed", ("drain_1", "drain_2")),
        "submit": ("Submitted in bulk", ("submit_bulk",)),
        "callers": ("Submitted by 32 callers, one task at a time", ("submit_concurrent",)),
    }
    for file, (title, names) in jobs.items():
        values = {name: best for name, one in summary.items() if (best := _best(one, *names))}
        svg = bars(f"{title}, tasks a second", values, ours=OURS, unit="/s")
        (directory / f"{file}.svg").write_text(svg)
    late = {name: one["p99"] for name, figures in summary.items() if (one := _late(figures))}
    svg = bars("Scheduled tasks: 99th percentile of lateness", late, ours=OURS, unit="ms")
    (directory / "lateness.svg").write_text(svg)


def note_facts(contestants: list[Contestant], results: Results, servers: Servers) -> None:
    """Write down machine, versions and settings, before anything is measured."""
    for contestant in contestants:
        python_of(contestant.folder)
    known = results.read("facts").get("contestants", {})
    valkey = servers.valkey.version if servers.valkey else "not used"
    results.write(
        "facts",
        {
            "machine": machine(),
            "servers": {
                "PostgreSQL": f"{servers.postgres.version}, {_settings(servers)}",
                "Valkey": f"{valkey}, appendonly no",
            },
            "contestants": known
            | {
                one.name: {
                    "versions": versions_of(one.folder, one.packages),
                    "settings": one.settings,
                }
                for one in contestants
            },
        },
    )


def _settings(servers: Servers) -> str:
    return ", ".join(f"{name}={value}" for name, value in servers.postgres.settings.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=EVERYBODY, help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="one small round, a few minutes")
    parser.add_argument("--out", type=Path, default=RUNS / "against")
    chosen_options = parser.parse_args()
    quick = chosen_options.quick
    contestants = chosen(chosen_options.peers or EVERYBODY)
    results = Results(chosen_options.out)
    remove_boards()
    end_in_order_on_sigterm()
    scale = QUICK_SCALE if quick else 1.0
    with running_servers("against") as servers:
        note_facts(contestants, results, servers)
        rounds = 1 if quick else chosen_options.rounds
        measure_singles("headline", contestants, results, servers, scale=scale)
        measure("headline", contestants, results, servers, rounds=rounds, scale=scale)
        if not quick:
            measure_future(contestants, results, servers)
    if not quick:
        measure_kills(contestants, results)
    print(report(results))


if __name__ == "__main__":
    main()
