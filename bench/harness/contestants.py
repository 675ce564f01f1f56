"""Who takes part, how each is started, and how large its runs are.

The settings are the best documented ones, found by a short sweep; each contestant's `app.py` has
those of its client and handlers. Counts are smaller for the slow ones, so that a round stays short.
"""

from typing import Final, NamedTuple

Command = tuple[str, ...]


class Contestant(NamedTuple):
    """One product as it is measured."""

    name: str
    folder: str
    store: str
    """`postgres` or `redis`."""

    packages: tuple[str, ...]
    worker: Command
    """Command of one worker, run in the contestant's environment."""

    settings: str
    """What was tuned, for the report."""

    pair: tuple[Command, ...] = ()
    """Commands of two workers, where that is not the same command twice."""

    beside: tuple[Command, ...] = ()
    """What else has to run for scheduled tasks and recovery."""

    kill_environment: tuple[tuple[str, str], ...] = ()
    """Variables that undo for the kill test what was tuned for speed."""

    single: int = 2000
    concurrent: int = 6400
    bulk: int = 20_000
    scheduled_rate: int = 500
    future: int = 20_000
    boot_seconds: float = 1.5
    has_second_worker: bool = True
    sees_others: bool = True
    """False: what another process submits to a running worker is not seen before it looks again for
    a reason of its own, so only what waits when it starts can be measured."""

    is_quiet: bool = False
    """Its worker writes a line for each task; nobody reads it, so it is not kept."""


def _twice(command: Command) -> tuple[Command, ...]:
    return (command, command)


_CELERY: Final = (
    *("celery", "-A", "app", "worker", "--without-gossip", "--without-mingle"),
    *("--without-heartbeat", "-l", "WARNING", "-P", "prefork"),
)
_TASKIQ: Final = (
    *("taskiq", "worker", "app:broker", "--max-async-tasks", "500"),
    *("--max-prefetch", "500", "--log-level", "WARNING"),
)
_RQ: Final = (
    *("rq", "worker", "-q", "-u", "{redis}", "-S", "json"),
    *("-w", "rq.worker.SimpleWorker", "--disable-job-desc-logging", "--with-scheduler"),
)

CONTESTANTS: Final[tuple[Contestant, ...]] = (
    Contestant(
        name="mainspring",
        folder="mainspring",
        store="postgres",
        packages=("mainspring", "asyncpg", "uvloop", "msgspec"),
        worker=("mainspring", "worker", "--app", "app:app", "--processes", "1"),
        settings="one runner process for each worker, 100 async handlers at a time",
        beside=(("mainspring", "scheduler"),),
        bulk=40_000,
        concurrent=12_800,
        future=200_000,
    ),
    Contestant(
        name="pgqueuer",
        folder="pgqueuer",
        store="postgres",
        packages=("pgqueuer", "asyncpg", "uvloop"),
        worker=("python", "app.py", "worker"),
        settings="dequeue batches of 200, enqueue batches of 1,000, uvloop, durable tables",
        kill_environment=(("BENCH_BATCH", "10"),),
        future=200_000,
    ),
    Contestant(
        name="huey",
        folder="huey",
        store="redis",
        packages=("huey", "redis", "hiredis"),
        worker=("huey_consumer", "app.huey", "-w", "2", "-k", "thread", "-q"),
        settings="two threads, results off",
        bulk=8000,
    ),
    Contestant(
        name="dramatiq",
        folder="dramatiq",
        store="redis",
        packages=("dramatiq", "redis", "hiredis"),
        worker=("dramatiq", "app", "-p", "1", "-t", "16"),
        pair=(("dramatiq", "app", "-p", "2", "-t", "16"),),
        settings="16 threads in each process",
        bulk=8000,
        boot_seconds=2.0,
    ),
    Contestant(
        name="saq",
        folder="saq",
        store="redis",
        packages=("saq", "redis", "hiredis", "uvloop"),
        worker=("python", "app.py", "worker"),
        settings="concurrency 20, orjson, uvloop, results not kept",
        bulk=5000,
    ),
    Contestant(
        name="taskiq",
        folder="taskiq",
        store="redis",
        packages=("taskiq", "taskiq-redis", "redis", "uvloop"),
        worker=(*_TASKIQ, "-w", "1"),
        pair=((*_TASKIQ, "-w", "2"),),
        beside=(
            (
                *("taskiq", "scheduler", "app:scheduler", "--update-interval", "1"),
                *("--loop-interval", "1", "--log-level", "WARNING"),
            ),
        ),
        settings="Redis streams, 500 async tasks, orjson, uvloop, schedules read every second",
        bulk=5000,
        boot_seconds=2.5,
    ),
    Contestant(
        name="arq",
        folder="arq",
        store="redis",
        packages=("arq", "redis", "hiredis", "uvloop"),
        worker=("arq", "app.WorkerSettings"),
        settings="500 jobs at a time, polled every 50 ms, results not kept",
        kill_environment=(("BENCH_DEFAULTS", "1"),),
        bulk=4000,
        is_quiet=True,
    ),
    Contestant(
        name="celery",
        folder="celery",
        store="redis",
        packages=("celery", "kombu", "redis", "hiredis"),
        worker=(*_CELERY, "-c", "1", "-n", "w1@%h"),
        pair=((*_CELERY, "-c", "2", "-n", "w1@%h"),),
        settings="prefork, results ignored, prefetch multiplier 128, no gossip, mingle, heartbeat",
        bulk=2000,
        single=1000,
        concurrent=1600,
        boot_seconds=3.0,
    ),
    Contestant(
        name="procrastinate",
        folder="procrastinate",
        store="postgres",
        packages=("procrastinate", "psycopg", "uvloop"),
        worker=("python", "app.py", "worker"),
        settings="concurrency 20, uvloop",
        single=500,
        concurrent=640,
        bulk=1500,
        scheduled_rate=100,
    ),
    Contestant(
        name="rq",
        folder="rq",
        store="redis",
        packages=("rq", "redis", "hiredis"),
        worker=_RQ,
        settings="SimpleWorker (no fork), JSON, results not kept, with its scheduler",
        single=500,
        concurrent=640,
        bulk=1000,
        scheduled_rate=100,
    ),
    Contestant(
        name="apscheduler",
        folder="apscheduler",
        store="postgres",
        packages=("apscheduler", "sqlalchemy", "psycopg"),
        worker=("python", "app.py", "worker"),
        settings="version 3, SQLAlchemy job store, ten threads; one process by design",
        single=500,
        concurrent=640,
        bulk=1000,
        scheduled_rate=100,
        future=5000,
        has_second_worker=False,
        sees_others=False,
    ),
)
BY_NAME: Final = {contestant.name: contestant for contestant in CONTESTANTS}


def workers_of(contestant: Contestant, count: int) -> tuple[Command, ...]:
    """Return the commands that start one or two workers."""
    if count == 1:
        return (contestant.worker,)
    return contestant.pair or _twice(contestant.worker)


def chosen(names: str) -> list[Contestant]:
    """Return contestants by their names, separated by commas, with ourselves first."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = sorted(set(wanted) - set(BY_NAME))
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    ordered = ["mainspring", *(name for name in wanted if name != "mainspring")]
    return [BY_NAME[name] for name in dict.fromkeys(ordered)]
