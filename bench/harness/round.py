"""One round of one contestant: the same jobs for everybody, on an empty store."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from bench.harness.board import Board, quantile
from bench.harness.contestants import Contestant, workers_of
from bench.harness.meters import Reading, cpu_seconds, foreign_share, memory_megabytes, read
from bench.harness.processes import Crew
from bench.harness.servers import Servers

CALLERS: Final = 32
LEAD_SECONDS: Final = 4.0
LATENESS_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 5.0
_FAST_RATE: Final = 1150
_TIMEOUT_SECONDS: Final = 120.0


class Sizes(NamedTuple):
    """How many tasks each job has."""

    concurrent: int
    bulk: int
    rates: tuple[int, ...]
    lead_seconds: float = LEAD_SECONDS
    lateness_seconds: float = LATENESS_SECONDS


def sizes_of(contestant: Contestant, *, scale: float = 1.0) -> Sizes:
    """Return a contestant's sizes, scaled for a quick look."""
    rates: tuple[int, ...] = (contestant.scheduled_rate,)
    if contestant.name == "mainspring" and scale >= 1:
        rates = (contestant.scheduled_rate, _FAST_RATE)
    # What is slow at taking scheduled tasks needs a longer lead to have all of them in time.
    fast = contestant.bulk >= 20_000
    return Sizes(
        concurrent=max(CALLERS * 10, int(contestant.concurrent * scale)),
        bulk=max(500, int(contestant.bulk * scale)),
        rates=rates,
        lead_seconds=LEAD_SECONDS if fast else 2 * LEAD_SECONDS,
        lateness_seconds=LATENESS_SECONDS if scale >= 1 else 3.0,
    )


class Round:
    """A contestant on an empty store of its own, with its client connected."""

    def __init__(self, contestant: Contestant, servers: Servers, number: int) -> None:
        self.contestant = contestant
        self.servers = servers
        self.board = Board(contestant.name)
        self.address = prepare(contestant, servers, number)
        self.crew = Crew(contestant, self.board, self.address)
        if contestant.store == "postgres" and not servers.postgres.fresh(database_of(contestant)):
            self.crew.set_up()
            servers.postgres.keep_as_template(database_of(contestant))
        self.client = self.crew.client()
        self.figures: dict[str, Any] = {}
        self.foreign: dict[str, float] = {}

    def close(self) -> None:
        self.client.__exit__()
        self.crew.close()
        self.board.remove()

    def reading(self) -> Reading:
        pids = [*self.crew.pids(), self.client.pid]
        own = time.process_time()
        return read(cpu_seconds(pids) + self.servers.cpu_seconds() + own)

    @contextmanager
    def watched(self, job: str) -> Iterator[None]:
        """Note by how much others disturbed a job."""
        before = self.reading()
        yield
        self.foreign[job] = round(foreign_share(before, self.reading()), 3)

    def start_workers(self, count: int) -> None:
        """Start workers and wait until each has run something, or long enough for that."""
        before = self.board.hits()
        self.crew.start(workers_of(self.contestant, count))
        self.client.call("single", 1)
        self.board.wait(before + 1, 30, self.crew.look)
        time.sleep(self.contestant.boot_seconds if count > 1 else 0.5)


def database_of(contestant: Contestant) -> str:
    return f"bench_{contestant.name}"


def prepare(contestant: Contestant, servers: Servers, number: int) -> str:
    """Return the address of the contestant's store; empty it, if it is in Valkey."""
    if contestant.store == "postgres":
        return servers.postgres.dsn(database_of(contestant))
    assert servers.valkey is not None
    servers.valkey.fresh(number)
    return servers.valkey.url(number)


def submit(round_: Round, sizes: Sizes) -> int:
    """Measure two ways to submit (`singles` has the third); returns how many tasks wait now."""
    jobs: tuple[tuple[str, str, tuple[int, ...]], ...] = (
        ("submit_concurrent", "concurrent", (sizes.concurrent, CALLERS)),
        ("submit_bulk", "bulk", (sizes.bulk,)),
    )
    for job, command, arguments in jobs:
        with round_.watched(job):
            database = round_.servers.cpu_seconds()
            done = round_.client.call(command, *arguments)
        count = arguments[0]
        round_.figures[job] = round(count / done["seconds"], 1)
        round_.figures[f"{job}_client_us"] = round(done["cpu"] / count * 1e6, 1)
        spent = round_.servers.cpu_seconds() - database
        round_.figures[f"{job}_store_us"] = round(spent / count * 1e6, 1)
    return sizes.concurrent // CALLERS * CALLERS + sizes.bulk


def drain(round_: Round, waiting: int, workers: int) -> None:
    """Measure how fast workers that are started now run what waits; their start is left out."""
    job = f"drain_{workers}"
    before, database = round_.board.hits(), round_.servers.cpu_seconds()
    round_.crew.start(workers_of(round_.contestant, workers))
    with round_.watched(job):
        # From the first tenth on: workers start one after the other.
        begun = round_.board.wait(before + waiting // 10, _TIMEOUT_SECONDS, round_.crew.look)
        done = round_.board.wait(before + waiting, _TIMEOUT_SECONDS, round_.crew.look)
    ran = done.last_count - begun.last_count
    elapsed = done.last_at - begun.last_at
    if elapsed > 0:
        round_.figures[job] = round(ran / elapsed, 1)
    if done.last_count < before + waiting:
        round_.figures[f"{job}_unfinished"] = before + waiting - done.last_count
    total = max(1, done.last_count - before)
    spent = round_.servers.cpu_seconds() - database
    round_.figures[f"{job}_worker_us"] = round(cpu_seconds(round_.crew.pids()) / total * 1e6, 1)
    round_.figures[f"{job}_store_us"] = round(spent / total * 1e6, 1)


def life(round_: Round, count: int, workers: int) -> None:
    """Measure submitting and running together, from the first submission to the last run."""
    job = f"life_{workers}"
    before = round_.board.hits()
    with round_.watched(job):
        round_.client.begin("bulk", count)
        done = round_.board.wait(before + count, _TIMEOUT_SECONDS, round_.crew.look)
        sent = round_.client.end()
    round_.figures[job] = round((done.last_count - before) / (done.last_at - sent["started"]), 1)
    if done.last_count < before + count:
        round_.figures[f"{job}_unfinished"] = before + count - done.last_count


def idle(round_: Round) -> None:
    """Measure what a worker without work costs."""
    time.sleep(1.5)
    own, store, at = cpu_seconds(round_.crew.pids()), round_.servers.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    elapsed = time.monotonic() - at
    pids = round_.crew.pids()
    round_.figures["idle_worker_percent"] = round((cpu_seconds(pids) - own) / elapsed * 100, 2)
    spent = round_.servers.cpu_seconds() - store
    round_.figures["idle_store_percent"] = round(spent / elapsed * 100, 2)
    round_.figures["worker_megabytes"] = round(memory_megabytes(pids), 1)


def lateness(round_: Round, rate: int, sizes: Sizes) -> None:
    """Measure by how much scheduled tasks start after their time."""
    count = int(rate * sizes.lateness_seconds)
    round_.board.clear()
    with round_.watched(f"late_{rate}"):
        sent = round_.client.call("schedule", count, sizes.lead_seconds, sizes.lateness_seconds)
        round_.board.wait(count, sizes.lead_seconds + sizes.lateness_seconds + 40, round_.crew.look)
    late = round_.board.lateness(count)
    milliseconds = {
        "p50": round(quantile(late, 0.5) * 1e3, 1),
        "p99": round(quantile(late, 0.99) * 1e3, 1),
        "max": round(quantile(late, 1.0) * 1e3, 1),
        "min": round(quantile(late, 0.0) * 1e3, 1),
        "ran": len(late),
        "of": count,
        "in_time": sent["seconds"] < sizes.lead_seconds,
    }
    round_.figures[f"late_{rate}"] = milliseconds


def play(
    contestant: Contestant, servers: Servers, number: int, sizes: Sizes, *, with_idle: bool
) -> dict[str, Any]:
    """Play one whole round and return its figures."""
    round_ = Round(contestant, servers, number)
    try:
        attempt(round_, "submit", lambda: drain(round_, submit(round_, sizes), 1))
        if with_idle:
            attempt(round_, "idle", lambda: idle(round_))
        if contestant.sees_others:
            attempt(round_, "life", lambda: life(round_, sizes.bulk, 1))
            round_.crew.start(contestant.beside)
            for rate in sizes.rates:
                attempt(round_, "late", partial(lateness, round_, rate, sizes))
        if contestant.has_second_worker:
            round_.crew.stop()
            round_.board.clear()
            attempt(round_, "two", lambda: two_workers(round_, sizes))
    finally:
        round_.close()
    return {**round_.figures, "foreign": round_.foreign}


def two_workers(round_: Round, sizes: Sizes) -> None:
    """Drain and life cycle with two workers."""
    round_.client.call("bulk", sizes.bulk)
    drain(round_, sizes.bulk, 2)
    time.sleep(0.5)
    life(round_, sizes.bulk, 2)


def attempt(round_: Round, name: str, job: Callable[[], object]) -> None:
    """Run a job; a contestant that fails it goes on with the next one, and the report says so."""
    try:
        job()
    except (RuntimeError, OSError, ZeroDivisionError) as error:
        round_.figures[f"{name}_error"] = f"{type(error).__name__}: {error}"
