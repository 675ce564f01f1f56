"""One submission after the other, by all contestants in turn.

Each of them waits for the same flush of the disk, whose pace changes from second to second by more
than they differ. So all clients are there at the same time, on one server, and take turns of a
fraction of a second: what the disk does at the moment it does to everybody.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from bench.harness.contestants import CONTESTANTS, Contestant
from bench.harness.round import Round
from bench.harness.servers import Servers

TURNS: Final = 40
_SHARE: Final = 10
_LEAST: Final = 20


def singles(
    contestants: Sequence[Contestant], servers: Servers, *, scale: float = 1.0
) -> dict[str, dict[str, Any]]:
    """Return for each contestant the median rate of its turns, what a submission costs its client
    and the store, and by how much the first contestant was ahead of it in the median turn.
    """
    turns = max(4, int(TURNS * scale))
    with ExitStack() as stack:
        rounds = [_opened(contestant, servers, stack) for contestant in contestants]
        for each in rounds:
            _turn(each, _LEAST)
        # By turns from the front and from the back, so that nobody always follows the same one.
        played = [
            {each.contestant.name: _turn(each, _count(each)) for each in rounds[:: 1 - 2 * (n % 2)]}
            for n in range(turns)
        ]
    return {each.contestant.name: _figures(each.contestant.name, played) for each in rounds}


def _opened(contestant: Contestant, servers: Servers, stack: ExitStack) -> Round:
    each = Round(contestant, servers, CONTESTANTS.index(contestant))
    stack.callback(each.close)
    return each


def _count(each: Round) -> int:
    return max(_LEAST, each.contestant.single // _SHARE)


def _turn(each: Round, count: int) -> Mapping[str, float]:
    before = each.servers.cpu_seconds()
    done = each.client.call("single", count)
    store = each.servers.cpu_seconds() - before
    return {
        "submit_single": count / done["seconds"],
        "submit_single_client_us": done["cpu"] / count * 1e6,
        "submit_single_store_us": store / count * 1e6,
    }


def _figures(name: str, played: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    first = next(iter(played[0]))
    figures = {
        figure: round(statistics.median(turn[name][figure] for turn in played), 1)
        for figure in played[0][name]
    }
    ratios = [turn[first]["submit_single"] / turn[name]["submit_single"] for turn in played]
    return {**figures, "submit_single_ahead": round(statistics.median(ratios), 3)}
