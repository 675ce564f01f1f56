"""Does the cost of a task depend on how many others there are? Life cycle, claims and lateness
beside future, waiting and finished tasks, with more workers, and under a held snapshot.

    python -m bench.growth              (about ten minutes; --small for a look in one or two)

Every point is measured in turn with an empty database on the same server, and given as a ratio to
it, because the speed of a machine changes from minute to minute.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.harness.board import remove_boards
from bench.harness.claiming import claim_costs
from bench.harness.contestants import BY_NAME
from bench.harness.drawing import lines
from bench.harness.meters import foreign_share
from bench.harness.places import RUNS
from bench.harness.processes import end_in_order_on_sigterm
from bench.harness.results import Results, machine, table
from bench.harness.round import Round, Sizes, database_of, lateness, life
from bench.harness.seeding import hold_snapshot, seed
from bench.harness.servers import Servers, running_servers

ROUNDS: Final = 3
TASKS: Final = 30_000
RATE: Final = 500
SNAPSHOT_SECONDS: Final = 60.0
_OURS: Final = BY_NAME["mainspring"]
_LATE: Final = Sizes(0, 0, 0, (), lead_seconds=2.0, lateness_seconds=6.0)
_WORKERS: Final = (1, 4, 16)


class Stand:
    """One database with its worker and its client."""

    def __init__(self, name: str, servers: Servers, number: int) -> None:
        self.round = Round(_OURS._replace(name=name), servers, number)
        self.dsn = servers.postgres.dsn(database_of(self.round.contestant))
        self.start(1)

    def start(self, workers: int) -> None:
        """Run so many workers from now on, instead of those before."""
        self.round.crew.stop()
        self.round.crew.start([_OURS.worker] * workers)
        self.life(2000)
        time.sleep(0.5 + 0.2 * workers)

    def life(self, tasks: int = TASKS) -> float:
        """Return tasks a second from the first submission until so many have run."""
        life(self.round, tasks, 1)
        rate: float = self.round.figures["life_1"]
        return rate

    def late(self) -> dict[str, float]:
        """Return how late scheduled tasks start."""
        lateness(self.round, RATE, _LATE)
        figures: dict[str, float] = self.round.figures[f"late_{RATE}"]
        return figures

    def claim(self, *, with_empty: bool) -> dict[str, float]:
        """Return what a claim costs while no worker runs."""
        self.round.crew.stop()
        return claim_costs(self.dsn, with_empty=with_empty)


def compare(base: Stand, grown: Stand, *, with_late: bool, with_claims: bool) -> dict[str, Any]:
    """Measure both in turn and return the figures of the grown one and the ratios."""
    before = grown.round.reading()
    pairs = [(base.life(), grown.life()) for _ in range(ROUNDS)]
    figures: dict[str, Any] = {
        "foreign": round(foreign_share(before, grown.round.reading()), 2),
        "life_per_s": statistics.median(rate for _, rate in pairs),
        "base_life_per_s": statistics.median(rate for rate, _ in pairs),
        "life_ratio": round(statistics.median(rate / other for other, rate in pairs), 3),
    }
    if with_late:
        late = [(base.late(), grown.late()) for _ in range(ROUNDS)]
        figures["base_late_ms"] = _middle([before for before, _ in late])
        figures["late_ms"] = _middle([after for _, after in late])
    if with_claims:
        figures["base_claim"] = base.claim(with_empty=True)
        # With tasks waiting there is no claim that finds nothing.
        figures["claim"] = grown.claim(with_empty=with_late)
        base.start(1)
        grown.start(1)
    return figures


def _middle(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the round that is the median by its 99th percentile."""
    return sorted(rounds, key=lambda figures: figures["p99"])[len(rounds) // 2]


def grow(results: Results, servers: Servers, kind: str, sizes: list[int]) -> None:
    """Add rows of a kind step by step and measure after each."""
    if all(f"{kind}/{size}" in results.read("growth") for size in sizes):
        return
    base, grown = Stand("base", servers, 40), Stand(f"grown_{kind}", servers, 41)
    try:
        there = 0
        for size in sizes:
            seconds = seed(grown.dsn, kind, size - there, first=there)
            print(f"growth: {size:,} {kind}: {seconds:.0f} s to make them", flush=True)
            there = size
            is_waiting = kind == "waiting"
            outcome = results.once(
                "growth",
                f"{kind}/{size}",
                partial(compare, base, grown, with_late=not is_waiting, with_claims=True),
            )
            print(f"growth: {size:,} {kind}: {outcome}", flush=True)
    finally:
        base.round.close()
        grown.round.close()
        servers.postgres.run(f"DROP DATABASE bench_grown_{kind} WITH (FORCE)")


def more_workers(results: Results, servers: Servers) -> None:
    """Measure with more worker processes than the machine has cores for."""
    if all(f"workers/{count}" in results.read("growth") for count in _WORKERS):
        return
    base, grown = Stand("base", servers, 40), Stand("grown_workers", servers, 41)
    try:
        for count in _WORKERS:
            grown.start(count)
            outcome = results.once(
                "growth",
                f"workers/{count}",
                partial(compare, base, grown, with_late=True, with_claims=False),
            )
            print(f"growth: {count} workers: {outcome}", flush=True)
    finally:
        base.round.close()
        grown.round.close()


def held_snapshot(results: Results, servers: Servers, seconds: float) -> None:
    """Measure before, during and after a snapshot that another session keeps open."""
    if "snapshot" in results.read("growth"):
        return
    base, held = Stand("base", servers, 40), Stand("grown_snapshot", servers, 41)
    series: list[tuple[float, float]] = []

    def work() -> None:
        begun = time.monotonic()
        while (at := time.monotonic() - begun) < seconds:
            series.append((round(at, 1), held.life(TASKS)))

    def measure() -> dict[str, Any]:
        before = [(base.life(), held.life()) for _ in range(ROUNDS)]
        hold_snapshot(held.dsn, work)
        after = [(base.life(), held.life()) for _ in range(ROUNDS)]
        first = statistics.median(rate for _, rate in before)
        last = statistics.median(rate for _, rate in series[-ROUNDS:])
        return {
            "before_per_s": first,
            "held_per_s": last,
            "after_per_s": statistics.median(rate for _, rate in after),
            "base_before_per_s": statistics.median(rate for rate, _ in before),
            "base_after_per_s": statistics.median(rate for rate, _ in after),
            "life_ratio": round(last / first, 3),
            "series": series,
        }

    try:
        print("growth: held snapshot:", results.once("growth", "snapshot", measure), flush=True)
    finally:
        base.round.close()
        held.round.close()


def report(results: Results) -> str:
    """Return the table and write the charts."""
    found = results.read("growth")
    rows = [_row(name, one) for name, one in found.items() if "life_ratio" in one]
    head = (
        *("beside", "life /s", "empty database /s", "ratio", "late p99 ms", "empty p99 ms"),
        *("claim of 100 ms", "empty database ms", "claim of none ms"),
    )
    text = f"# Growth\n\n{results.read('facts')}\n\n{table(head, rows)}\n"
    (results.directory / "growth.md").write_text(text)
    ratios = {
        kind: [
            (float(name.split("/")[1]), one["life_ratio"])
            for name, one in found.items()
            if name.startswith(f"{kind}/") and "life_ratio" in one
        ]
        for kind in ("future", "waiting", "finished")
    }
    chart = lines(
        "Life-cycle rate beside other tasks, as a share of that of an empty database",
        {kind: points for kind, points in ratios.items() if points},
        across="other tasks in the database",
        up="share",
        log_across=True,
    )
    (results.directory / "growth.svg").write_text(chart)
    if "series" in found.get("snapshot", {}):
        chart = lines(
            "Life cycle while another session holds a snapshot",
            {"held": found["snapshot"]["series"]},
            across="seconds since the snapshot was taken",
            up="tasks a second",
        )
        (results.directory / "snapshot.svg").write_text(chart)
    return text


def _row(name: str, one: Mapping[str, Any]) -> list[object]:
    if name == "snapshot":
        rates = (one["held_per_s"], one["before_per_s"])
        return ["held snapshot, last seconds", *rates, f"{one['life_ratio']:.2f}", *[None] * 5]
    late, base_late = one.get("late_ms", {}), one.get("base_late_ms", {})
    claim, base_claim = one.get("claim", {}), one.get("base_claim", {})
    return [
        f"{int(name.split('/')[1]):,} {name.split('/', maxsplit=1)[0]}",
        one["life_per_s"],
        one["base_life_per_s"],
        f"{one['life_ratio']:.2f}",
        late.get("p99"),
        base_late.get("p99"),
        claim.get("claim_ms"),
        base_claim.get("claim_ms"),
        claim.get("empty_claim_ms"),
    ]


def run(results: Results, *, small: bool = False) -> None:
    """Measure everything that is not measured yet."""
    part = 1000 if small else 1
    steps = {
        "future": [10_000, 100_000, 1_000_000, 10_000_000],
        "waiting": [10_000, 1_000_000],
        "finished": [1_000_000, 20_000_000],
    }
    with running_servers("growth", with_valkey=False) as servers:
        results.write("facts", {**results.read("facts"), "growth_machine": machine()})
        for kind, sizes in steps.items():
            grow(results, servers, kind, [max(1000, size // part) for size in sizes])
        held_snapshot(results, servers, SNAPSHOT_SECONDS / (10 if small else 1))
        more_workers(results, servers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a thousandth of the rows")
    parser.add_argument("--out", type=Path, default=RUNS / "growth")
    options = parser.parse_args()
    results = Results(options.out)
    remove_boards()
    end_in_order_on_sigterm()
    run(results, small=options.small)
    print(report(results))


if __name__ == "__main__":
    main()
