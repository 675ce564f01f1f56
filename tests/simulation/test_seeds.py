"""The whole installation in virtual time, seed after seed.

`MAINSPRING_SIM_SEEDS` says how many. A seed that fails is replayed by

    PYTHONPATH=tests python -m simulation.replay SEED
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.play import play

CHUNKS = 20
SEEDS = int(os.environ.get("MAINSPRING_SIM_SEEDS", "200"))
RANDOM_SEEDS = 10


def judge(seed: int) -> None:
    verdict = play(seed)
    if verdict.violations:
        pytest.fail(str(verdict))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_violates_an_invariant(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        judge(seed)


def test_nor_does_a_seed_that_nobody_tried_before(rng: random.Random) -> None:
    for _ in range(RANDOM_SEEDS):
        judge(rng.randrange(10**6, 10**12))


@pytest.mark.parametrize("seed", [1, 7, 10])
def test_a_seed_replays_identically(seed: int) -> None:
    first, second = play(seed), play(seed)
    assert first.trace == second.trace
    assert first.counts == second.counts
    assert first.trace == trace_elsewhere(seed, "4711")


def trace_elsewhere(seed: int, hash_seed: str) -> str:
    """Run a seed in another process, where sets of text have another order."""
    tests = Path(__file__).parent.parent
    program = (
        f"import logging, sys; sys.path.insert(0, {str(tests)!r}); logging.disable(50)\n"
        f"from simulation.play import play; print(play({seed}).trace)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_different_seeds_go_different_ways() -> None:
    assert len({play(seed).trace for seed in range(5)}) == 5


def test_the_seeds_do_what_they_are_for() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    counts: dict[str, int] = {}
    for seed in range(30):
        for name, count in play(seed).counts.items():
            counts[name] = counts.get(name, 0) + count
    rare = {name: count for name, count in counts.items() if count < 10}
    assert rare == {}
    assert len(counts) == 17
