"""Replays seeds: PYTHONPATH=tests python -m simulation.replay SEED..."""

import logging
import sys

from simulation.play import play

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for text in sys.argv[1:]:
        verdict = play(int(text))
        print(verdict, f"\n  trace {verdict.trace}")
