"""What becomes of running tasks when the worker is killed as by `kill -9`.

Five tasks of four seconds each; the worker and all its processes are killed in the middle of them
and another one is started at once. Nobody's recovery settings are tuned.
"""

import time
from typing import Any, Final, NamedTuple

from bench.harness.board import Board
from bench.harness.contestants import Contestant
from bench.harness.processes import Crew
from bench.harness.round import database_of, prepare
from bench.harness.servers import Servers

TASKS: Final = 5
TASK_SECONDS: Final = 4.0
BOOT_SECONDS: Final = 4.0
LIMIT_SECONDS: Final = 100.0
_POLL_SECONDS: Final = 0.1


class Case(NamedTuple):
    """One contestant with the settings that matter when a worker dies."""

    label: str
    contestant: Contestant
    variables: tuple[tuple[str, str], ...] = ()


def cases_of(contestants: list[Contestant]) -> list[Case]:
    """Return each contestant as it comes, and the variants people ask about."""
    cases: list[Case] = []
    for contestant in contestants:
        if not contestant.sees_others:
            continue
        cases.append(Case(contestant.name, contestant, contestant.kill_environment))
        if contestant.name == "mainspring":
            short = (("MAINSPRING_LEASE_SECONDS", "10"), ("MAINSPRING_HEARTBEAT_SECONDS", "3"))
            cases.append(Case("mainspring, lease 10 s", contestant, short))
        if contestant.name == "celery":
            late = (("BENCH_ACKS_LATE", "1"),)
            cases.append(Case("celery, acks_late", contestant, late))
    return cases


def kill_and_watch(
    case: Case, servers: Servers, number: int, *, limit: float = LIMIT_SECONDS
) -> dict[str, Any]:
    """Kill a worker in mid-task and return what happened to the tasks within the limit."""
    contestant = case.contestant
    database = f"{database_of(contestant)}_kill_{number}"
    board = Board(f"kill-{number}")
    address = prepare(contestant, servers, number)
    if contestant.store == "postgres":
        servers.postgres.fresh(database)
        address = servers.postgres.dsn(database)
    crew = Crew(contestant, board, address, log_name=f"kill-{contestant.name}-{number}")
    crew.add_variables(dict(case.variables))
    try:
        crew.set_up()
        return _act(crew, board, limit)
    finally:
        crew.close()
        board.remove()


def _act(crew: Crew, board: Board, limit: float) -> dict[str, Any]:
    crew.start(crew.contestant.beside)
    doomed = crew.start((crew.contestant.worker,))
    time.sleep(BOOT_SECONDS)
    with crew.client() as client:
        client.call("slow", TASKS, TASK_SECONDS)
    _until(lambda: bool(board.slow_runs()[0]), 30.0)
    time.sleep(TASK_SECONDS / 8)
    killed_at = crew.kill(doomed)
    starts, ends = board.slow_runs()
    interrupted = sorted(set(starts) - set(ends))
    crew.start((crew.contestant.worker,))
    _until(lambda: len(board.slow_runs()[1]) >= TASKS, limit)
    starts, ends = board.slow_runs()
    again = [starts[number][1] - killed_at for number in interrupted if len(starts[number]) > 1]
    return {
        "interrupted": len(interrupted),
        "lost_or_stuck": TASKS - len(ends),
        "doubled": sum(1 for times in ends.values() if len(times) > 1),
        "runs_again_after_s": round(max(again), 1) if again else None,
        "limit_s": limit,
    }


def _until(is_so: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
