"""Every figure in one session, the most important first, within a budget of minutes.

    python -m bench.all --budget-minutes 45

Each part writes its JSON below `bench/.runs/all` (or --out) as it finishes, and a run that is
started again goes on where it stopped. What does not fit into the budget is left out and named.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import against, growth, sustained
from bench.harness.board import remove_boards
from bench.harness.contestants import CONTESTANTS, chosen
from bench.harness.places import RUNS
from bench.harness.processes import end_in_order_on_sigterm
from bench.harness.recovery import LIMIT_SECONDS
from bench.harness.results import Results
from bench.harness.servers import running_servers

_RIVAL: Final = "pgqueuer"
_OTHERS: Final = ",".join(
    contestant.name for contestant in CONTESTANTS if contestant.name not in {"mainspring", _RIVAL}
)
_SUSTAINED_LEAST: Final = 4.0
_SUSTAINED_REST: Final = 3.5
_SUSTAINED_MOST: Final = 15.0


class Session:
    """A budget, and what is done within it."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + minutes * 60

    def left(self) -> float:
        """Return the minutes that are left."""
        return (self._end - time.monotonic()) / 60

    def part(self, name: str, least_minutes: float, work: Callable[[], None]) -> None:
        """Do a part if there is time for it; a part that fails does not end the session."""
        if self.left() < least_minutes:
            print(f"== {name}: left out, {self.left():.0f} minutes remain", flush=True)
            return
        begun = time.monotonic()
        print(f"== {name} ({self.left():.0f} minutes remain)", flush=True)
        try:
            work()
        except (RuntimeError, OSError, TimeoutError) as error:
            print(f"== {name} failed: {type(error).__name__}: {error}", flush=True)
        print(f"== {name} took {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)


def beside(part: str, peers: str, results: Results, rounds: int, scale: float) -> None:
    """Ours and some peers, in turn."""
    contestants = chosen(peers)
    with running_servers(part) as servers:
        against.note_facts(contestants, results, servers)
        against.measure_singles(part, contestants, results, servers, scale=scale)
        against.measure(part, contestants, results, servers, rounds=rounds, scale=scale)


def futures(peers: str, results: Results, scale: float) -> None:
    """Worker memory beside future tasks."""
    with running_servers("futures") as servers:
        against.measure_future(chosen(peers), results, servers, scale=scale)


def play_all(session: Session, results: Results, rounds: int, *, smoke: bool) -> None:
    """Do everything that is not done yet, the most important first."""
    scale = 0.05 if smoke else 1.0
    limit = 20.0 if smoke else LIMIT_SECONDS
    everybody = chosen(against.EVERYBODY)
    session.part(
        "ours and the fastest peer",
        3,
        lambda: beside("headline", _RIVAL, results, rounds, scale),
    )
    session.part("future tasks", 2, lambda: futures(_RIVAL, results, scale))
    session.part("growth", 5, lambda: growth.run(results, small=smoke))
    session.part("kills", 2, lambda: against.measure_kills(everybody, results, limit=limit))
    reserve = 0.0 if smoke else _SUSTAINED_LEAST + _SUSTAINED_REST
    session.part(
        "the other peers",
        reserve + 5,
        lambda: beside("others", _OTHERS, results, rounds, scale),
    )
    session.part(
        "future tasks of the others", reserve + 4, lambda: futures(_OTHERS, results, scale)
    )
    minutes = min(_SUSTAINED_MOST, max(_SUSTAINED_LEAST, session.left() - _SUSTAINED_REST))
    seconds = 5.0 if smoke else sustained.PEAK_SECONDS
    session.part(
        "sustained",
        reserve - 1,
        lambda: sustained.run(results, 0.3 if smoke else round(minutes, 1), peak_seconds=seconds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget-minutes", type=float, default=45.0)
    parser.add_argument("--rounds", type=int, default=against.ROUNDS)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that all works")
    parser.add_argument("--out", type=Path, default=RUNS / "all")
    options = parser.parse_args()
    results = Results(options.out)
    remove_boards()
    end_in_order_on_sigterm()
    session = Session(options.budget_minutes)
    play_all(session, results, 1 if options.smoke else options.rounds, smoke=options.smoke)
    for part in (against, growth, sustained):
        print(part.report(results))


if __name__ == "__main__":
    main()
