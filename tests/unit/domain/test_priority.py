import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.priority import (
    LANES,
    STEPS,
    WEIGHTS,
    FairShare,
    Level,
    lane_after,
    lane_entries,
    lane_of,
    level_of,
    rank,
)

START = datetime(2026, 5, 12, tzinfo=UTC)
WEEK = 7 * 86400

priorities = st.integers(0, 10)
waits = st.integers(0, WEEK * 10**6).map(lambda microseconds: microseconds / 10**6)
limits = st.floats(1, WEEK)


def test_levels_of_all_priorities() -> None:
    levels = [level_of(priority).value for priority in range(11)]
    assert levels == ["critical"] + ["high"] * 3 + ["normal"] * 3 + ["low"] * 3 + ["batch"]
    assert lane_of(Level.BATCH) is Level.LOW


def test_the_example_of_the_requirements() -> None:
    """8 that waited 50 minutes ranks as 3."""
    assert rank(8, START) == rank(3, START + timedelta(minutes=50))


@given(priorities, priorities, waits, waits, waits)
def test_rank_is_the_order_of_effective_priority_at_any_time(
    one: int, other: int, one_due: float, other_due: float, later: float
) -> None:
    def effective(priority: int, due: float) -> float:
        """Priority less minutes waited / 10, in exact microseconds of waiting."""
        waited = round((max(one_due, other_due) + later - due) * 10**6)
        return priority * 600 * 10**6 - waited

    ranks = [
        rank(p, START + timedelta(microseconds=round(due * 10**6)))
        for p, due in ((one, one_due), (other, other_due))
    ]
    values = [effective(one, one_due), effective(other, other_due)]
    assert (ranks[0] < ranks[1]) == (values[0] < values[1])
    assert (ranks[0] == ranks[1]) == (values[0] == values[1])


@given(priorities, limits)
def test_lanes_are_entered_one_after_the_other(priority: int, limit: float) -> None:
    entries = lane_entries(priority, limit)
    home = LANES.index(lane_of(level_of(priority)))
    assert set(entries) == set(LANES[: home + 1])
    times = [entries[lane] for lane in reversed(LANES[: home + 1])]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert all(later - earlier <= limit * (1 + 1e-9) for earlier, later in pairwise(times))


@given(priorities, waits, waits, limits)
def test_waiting_never_makes_the_lane_worse(
    priority: int, waited: float, more: float, limit: float
) -> None:
    before = LANES.index(lane_after(priority, waited, limit))
    after = LANES.index(lane_after(priority, waited + more, limit))
    assert after <= before <= LANES.index(lane_of(level_of(priority)))


@given(priorities)
def test_after_three_limits_everything_is_critical(priority: int) -> None:
    assert lane_after(priority, 3 * 1800.0) is Level.CRITICAL


@given(priorities, waits)
def test_an_effective_priority_belongs_to_its_lane(priority: int, waited: float) -> None:
    """Age alone, with a limit that never applies."""
    effective = priority - waited / 600
    lane = lane_after(priority, waited, limit_seconds=10 * WEEK)
    worst = {Level.CRITICAL: 0, Level.HIGH: 3, Level.NORMAL: 6, Level.LOW: 10}
    reached = next(lane for lane in LANES if effective <= worst[lane] + 1e-9)
    exact = next(lane for lane in LANES if effective <= worst[lane] - 1e-9 or lane is Level.LOW)
    assert LANES.index(reached) <= LANES.index(lane) <= LANES.index(exact)


class Backlog:
    """Lanes that never run out while they are open, served as the store serves them."""

    def __init__(self) -> None:
        self.share = FairShare()
        self.starts: list[Level] = []

    def serve(self, lanes: set[Level], size: int) -> None:
        turns = sorted(
            ((self.share.served[lane] + k) * STEPS[lane], LANES.index(lane))
            for lane in lanes
            for k in range(1, size + 1)
        )[:size]
        claimed = sorted((LANES[index] for _, index in turns), key=LANES.index)
        self.starts += self.share.order([(lane, lane) for lane in claimed])


def worst_error(starts: list[Level], lanes: set[Level], window: int) -> float:
    total = sum(WEIGHTS[lane] for lane in lanes)
    worst = 0.0
    for lane in lanes:
        due = window * WEIGHTS[lane] / total
        count = starts[:window].count(lane)
        worst = max(worst, abs(count - due))
        for first in range(len(starts) - window):
            count += (starts[first + window] is lane) - (starts[first] is lane)
            worst = max(worst, abs(count - due))
    return worst


batches = st.lists(st.integers(1, 300), min_size=1, max_size=12)
open_lanes = st.sets(st.sampled_from(LANES), min_size=1)


@settings(max_examples=60)
@given(batches)
def test_backlogged_lanes_are_within_two_of_their_weight_in_any_thousand(sizes: list[int]) -> None:
    backlog = Backlog()
    while len(backlog.starts) < 2500:
        for size in sizes:
            backlog.serve(set(LANES), size)
    assert worst_error(backlog.starts, set(LANES), 1000) <= 2


@settings(max_examples=60)
@given(st.lists(st.tuples(open_lanes, batches), min_size=1, max_size=5), open_lanes, batches)
def test_so_they_are_after_any_history_of_idle_lanes(
    history: list[tuple[set[Level], list[int]]], lanes: set[Level], sizes: list[int]
) -> None:
    backlog = Backlog()
    for earlier, earlier_sizes in history:
        for size in earlier_sizes:
            backlog.serve(earlier, size)
    backlog.starts.clear()
    while len(backlog.starts) < 1200:
        for size in sizes:
            backlog.serve(lanes, size)
    assert worst_error(backlog.starts, lanes, 1000) <= 2


@given(st.lists(st.tuples(open_lanes, st.integers(1, 40)), max_size=30), st.sampled_from(LANES))
def test_a_lane_with_work_never_waits_for_long(
    history: list[tuple[set[Level], int]], lane: Level
) -> None:
    """However lanes came and went: every 100 / weight starts, give or take one a lane."""
    backlog = Backlog()
    for lanes, size in history:
        backlog.serve(lanes, size)
    backlog.starts.clear()
    for _ in range(60):
        backlog.serve(set(LANES), 1)
    gap = 100 / WEIGHTS[lane] + len(LANES)
    at = [index for index, start in enumerate(backlog.starts) if start is lane]
    assert at
    steps = [at[0] + 1, *(later - earlier for earlier, later in pairwise(at))]
    assert max(steps) <= gap


@given(st.lists(st.tuples(st.sampled_from(LANES), st.integers()), max_size=200))
def test_ordering_loses_nothing_and_keeps_the_order_within_a_lane(
    tasks: list[tuple[Level, int]],
) -> None:
    numbered = [(lane, (lane, index)) for index, (lane, _) in enumerate(tasks)]
    ordered = FairShare().order(numbered)
    assert sorted(index for _, index in ordered) == list(range(len(tasks)))
    for lane in LANES:
        mine = [index for its_lane, index in ordered if its_lane is lane]
        assert mine == sorted(mine)


def test_the_counters_stay_small() -> None:
    backlog = Backlog()
    chance = random.Random(3)
    for _ in range(2000):
        backlog.serve(set(chance.sample(LANES, chance.randrange(1, 5))), chance.randrange(1, 50))
    assert min(served // WEIGHTS[lane] for lane, served in backlog.share.served.items()) == 0
    assert max(backlog.share.served.values()) < 100_000


@pytest.mark.parametrize("lane", LANES)
def test_steps_are_exact(lane: Level) -> None:
    assert STEPS[lane] * WEIGHTS[lane] == 150
