"""An ordinary day in small: 1,150 tasks a second, mixed, for some minutes; then a peak.

    python -m bench.sustained --minutes 15

That is the rate of 100 million tasks a day. Every five seconds it notes lateness, memory,
processor time and the sizes of tables, indexes and the write-ahead log (CSV, JSON, SVG), and it
extrapolates disk, write-ahead log and processor time to a day.
"""

import argparse
import csv
import math
import time
from pathlib import Path
from typing import Any, Final

from bench.harness.board import quantile, remove_boards
from bench.harness.contestants import BY_NAME
from bench.harness.drawing import lines
from bench.harness.meters import CORES, cpu_seconds, foreign_share, memory_megabytes
from bench.harness.places import RUNS
from bench.harness.processes import end_in_order_on_sigterm
from bench.harness.results import Results, machine, table
from bench.harness.round import Round, database_of
from bench.harness.servers import Servers, running_servers

RATE: Final = 1150.0
PEAK_RATE: Final = 10_000.0
PEAK_SECONDS: Final = 60.0
SAMPLE_SECONDS: Final = 5.0
DAY_TASKS: Final = 100_000_000
_DRAIN_SECONDS: Final = 180.0
_SIZES: Final = (Path(__file__).parent / "harness" / "sql" / "sizes.sql").read_text()
_OURS: Final = BY_NAME["mainspring"]
Sample = dict[str, float]


class Watch:
    """Takes samples of one installation under load."""

    def __init__(self, round_: Round, servers: Servers) -> None:
        self.round = round_
        self.servers = servers
        self.samples: list[Sample] = []
        self._begun = time.time()
        self._cpu = self._processor_times()

    def _processor_times(self) -> dict[str, float]:
        return {
            "worker": cpu_seconds(self.round.crew.pids()),
            "client": cpu_seconds([self.round.client.pid]),
            "database": self.servers.cpu_seconds(),
        }

    def sample(self) -> None:
        """Take one sample."""
        before, self._cpu = self._cpu, self._processor_times()
        at = time.time()
        elapsed = at - (self.samples[-1]["at"] if self.samples else self._begun)
        (row,) = self.servers.postgres.run(_SIZES, database=database_of(self.round.contestant))
        self.samples.append(
            {
                "at": at,
                "second": round(at - self._begun, 1),
                "ran": self.round.board.hits(),
                "worker_megabytes": round(memory_megabytes(self.round.crew.pids()), 1),
                **{
                    f"{name}_cores": round((self._cpu[name] - before[name]) / elapsed, 3)
                    for name in before
                },
                **dict(row.items()),
            }
        )

    def while_submitting(
        self, rate: float, seconds: float, first: int, *, mixed: bool
    ) -> tuple[int, int]:
        """Have the client submit at a rate and take samples meanwhile; how many tasks were stored,
        and how many of refused submissions may have been.
        """
        self.round.client.begin("sustain", rate, seconds, first, mixed)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(SAMPLE_SECONDS)
            self.sample()
        stored, unsure = self.round.client.end(timeout=300)["answer"]
        return stored, unsure

    def until_ran(self, count: int) -> float:
        """Go on with the samples until so many tasks have run; return how long that took."""
        begun = time.monotonic()
        while self.round.board.hits() < count and time.monotonic() - begun < _DRAIN_SECONDS:
            self.round.board.wait(count, SAMPLE_SECONDS / 5)
            self.sample()
        return time.monotonic() - begun

    def add_lateness(self) -> list[float]:
        """Add to each sample how late the tasks were that were due since the one before."""
        late = sorted(self.round.board.late_by_due_time())
        ends = [sample["at"] for sample in self.samples]
        buckets: list[list[float]] = [[] for _ in ends]
        place = 0
        for due, by in late:
            while place < len(ends) and due > ends[place]:
                place += 1
            if place == len(ends):
                break
            buckets[place].append(by * 1e3)
        for sample, bucket in zip(self.samples, buckets, strict=True):
            bucket.sort()
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                value = quantile(bucket, share)
                sample[f"late_{name}_ms"] = 0.0 if math.isnan(value) else round(value, 1)
        return sorted(by * 1e3 for _, by in late)


def steady(servers: Servers, minutes: float, directory: Path) -> dict[str, Any]:
    """Run the mixed load and return what it took, with what a day would take."""
    round_ = Round(_OURS._replace(name="sustained"), servers, 42)
    try:
        round_.start_workers(1)
        round_.crew.start(_OURS.beside)
        time.sleep(3)
        ran_before = round_.board.hits()
        watch = Watch(round_, servers)
        watch.sample()
        reading = round_.reading()
        sent, unsure = watch.while_submitting(RATE, minutes * 60, 0, mixed=True)
        foreign = foreign_share(reading, round_.reading())
        loaded = len(watch.samples)
        rest = watch.until_ran(ran_before + sent)
        watch.sample()
        late = watch.add_lateness()
        _write_csv(directory / "sustained.csv", watch.samples)
        _draw(directory, watch.samples[1:loaded])
        ran = round_.board.hits() - ran_before
        return {
            "minutes": minutes,
            "submitted": sent,
            "refused_or_unknown": unsure,
            "ran": ran,
            "ended_after_the_last_submission_s": round(rest, 1),
            "foreign": round(foreign, 3),
            "late_ms": {
                name: round(quantile(late, share), 1)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))
            },
            **_sizes(watch.samples, loaded, ran),
        }
    finally:
        round_.close()


def _sizes(samples: list[Sample], loaded: int, ran: int) -> dict[str, Any]:
    first, last, busy = samples[0], samples[-1], samples[1:loaded]
    grown = {
        name: last[name] - first[name]
        for name in ("wal_bytes", "history_bytes", "history_index_bytes")
    }
    cores = {
        name: round(sum(sample[f"{name}_cores"] for sample in busy) / len(busy), 3)
        for name in ("worker", "client", "database")
    }
    per_task = {name: value / max(1, ran) for name, value in grown.items()}
    kept = per_task["history_bytes"] + per_task["history_index_bytes"]
    middle = busy[len(busy) // 2]
    return {
        "cores_used": cores,
        "worker_megabytes": {
            "start": first["worker_megabytes"],
            "middle": middle["worker_megabytes"],
            "end": busy[-1]["worker_megabytes"],
        },
        "live_table_megabytes": {
            "middle": round((middle["tasks_bytes"] + middle["task_index_bytes"]) / 1e6, 1),
            "end": round((busy[-1]["tasks_bytes"] + busy[-1]["task_index_bytes"]) / 1e6, 1),
        },
        "bytes_a_task": {name: round(value) for name, value in per_task.items()},
        "a_day_of_100_million": {
            "history_gb": round(kept * DAY_TASKS / 1e9, 1),
            "wal_gb": round(per_task["wal_bytes"] * DAY_TASKS / 1e9, 1),
            "wal_megabytes_per_s": round(per_task["wal_bytes"] * DAY_TASKS / 86_400 / 1e6, 2),
            "database_cores": cores["database"],
            "worker_cores_without_the_handlers_own": cores["worker"],
            "client_cores": cores["client"],
        },
    }


def peak(servers: Servers, directory: Path, seconds: float) -> dict[str, Any]:
    """Submit far more than a day's rate for a while and watch how it drains."""
    round_ = Round(_OURS._replace(name="peak"), servers, 43)
    try:
        round_.start_workers(1)
        round_.crew.start(_OURS.beside)
        time.sleep(3)
        ran_before = round_.board.hits()
        watch = Watch(round_, servers)
        watch.sample()
        sent, unsure = watch.while_submitting(PEAK_RATE, seconds, 0, mixed=False)
        waiting = ran_before + sent - round_.board.hits()
        rest = watch.until_ran(ran_before + sent)
        late = watch.add_lateness()
        _write_csv(directory / "peak.csv", watch.samples)
        chart = lines(
            "A peak of 10,000 tasks a second for a minute",
            {
                "waiting or running": [(s["second"], s["live_tasks"]) for s in watch.samples],
                "ran": [(s["second"], s["ran"]) for s in watch.samples],
            },
            across="seconds",
            up="tasks",
        )
        (directory / "peak.svg").write_text(chart)
        return {
            "submitted": sent,
            "refused_or_unknown": unsure,
            "submitted_per_s": round(sent / seconds),
            "ran": round_.board.hits() - ran_before,
            "waiting_at_the_end_of_the_peak": waiting,
            "drained_after_s": round(rest, 1),
            "largest_backlog": max(sample["live_tasks"] for sample in watch.samples),
            "late_ms": {
                name: round(quantile(late, share), 1)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
            },
        }
    finally:
        round_.close()


def _write_csv(path: Path, samples: list[Sample]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(samples[-1]), restval="")
        writer.writeheader()
        writer.writerows(samples)


def _draw(directory: Path, samples: list[Sample]) -> None:
    charts = {
        "lateness": (
            "Lateness of all tasks in each five seconds",
            "ms",
            {"p50": "late_p50_ms", "p99": "late_p99_ms", "max": "late_max_ms"},
            1.0,
        ),
        "memory": ("Memory of the worker", "MB", {"worker": "worker_megabytes"}, 1.0),
        "sizes": (
            "Sizes of the tables",
            "MB",
            {
                "live tasks": "tasks_bytes",
                "their indexes": "task_index_bytes",
                "history": "history_bytes",
                "its indexes": "history_index_bytes",
            },
            1e6,
        ),
        "cores": (
            "Processor time",
            "cores",
            {"worker": "worker_cores", "database": "database_cores", "client": "client_cores"},
            1.0,
        ),
    }
    for file, (title, unit, series, divisor) in charts.items():
        chart = lines(
            f"{title}, at 1,150 tasks a second",
            {
                label: [(sample["second"], sample[name] / divisor) for sample in samples]
                for label, name in series.items()
            },
            across="seconds",
            up=unit,
        )
        (directory / f"sustained-{file}.svg").write_text(chart)


def run(results: Results, minutes: float, *, peak_seconds: float = PEAK_SECONDS) -> None:
    """Measure what is not measured yet."""
    directory = results.directory
    known = results.read("sustained")
    if "steady" in known and "peak" in known:
        return
    results.write("facts", {**results.read("facts"), "sustained_machine": machine()})
    with running_servers("sustained", with_valkey=False) as servers:
        if peak_seconds:
            print(results.once("sustained", "peak", lambda: peak(servers, directory, peak_seconds)))
        print(results.once("sustained", "steady", lambda: steady(servers, minutes, directory)))


def report(results: Results) -> str:
    """Return both results as tables."""
    parts = ["# Sustained load", f"{CORES} cores, {results.read('facts')}"]
    for name, found in results.read("sustained").items():
        rows = [(key, value) for key, value in found.items() if not isinstance(value, dict)]
        for key, value in found.items():
            if isinstance(value, dict):
                rows += [(f"{key}: {part}", one) for part, one in value.items()]
        parts += [f"## {name}", table(("", ""), rows)]
    text = "\n\n".join(parts) + "\n"
    (results.directory / "sustained.md").write_text(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--peak-seconds", type=float, default=PEAK_SECONDS)
    parser.add_argument("--out", type=Path, default=RUNS / "sustained")
    options = parser.parse_args()
    results = Results(options.out)
    remove_boards()
    end_in_order_on_sigterm()
    run(results, options.minutes, peak_seconds=options.peak_seconds)
    print(report(results))


if __name__ == "__main__":
    main()
