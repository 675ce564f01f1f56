"""How long a reader of the waiting ranges goes without reading them from their beginning."""

from datetime import UTC, datetime
from typing import Any

from mainspring.adapters.postgres.claim import Starts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAIL: Any = {
    "now": NOW,
    "queues": ["q"],
    "head_queues": [],
    "head_priorities": [],
    "head_times": [],
    "head_ids": [],
    "unread": False,
}


def read(starts: Starts, at: float, seconds: float) -> float:
    """Read from the beginning, for so long; returns when that is due again, in seconds."""
    assert starts.known(at) == {}
    starts.learn(TAIL, at + seconds)
    pause = 0.0
    while starts.known(at + seconds + pause):
        pause += 0.05
    starts.forget()
    return pause


def test_a_quick_reading_is_repeated_soon() -> None:
    assert read(Starts(), 100.0, 0.001) <= 0.15


def test_one_that_stood_still_for_a_moment_is_repeated_soon_all_the_same() -> None:
    starts = Starts()
    assert read(starts, 100.0, 3.0) <= 0.6
    assert read(starts, 200.0, 0.001) <= 0.15


def test_readings_that_always_take_long_get_a_twentieth_of_the_time() -> None:
    starts = Starts()
    pauses = [read(starts, 100.0 * number, 1.0) for number in range(1, 9)]
    assert pauses == sorted(pauses)
    assert 19.9 <= pauses[-1] <= 20.1
