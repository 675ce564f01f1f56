"""For how long nothing is asked of a server that failed."""

from mainspring.adapters.redis.link import Absence
from manual_clock import ManualClock


def pause_of(absence: Absence, clock: ManualClock) -> float:
    absence.begin()
    passed = 0.0
    while absence.lasts:
        clock.advance(0.25)
        passed += 0.25
    return passed


def test_pauses_grow_while_it_fails_again_and_again() -> None:
    clock = ManualClock()
    absence = Absence(clock)
    assert [pause_of(absence, clock) for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]
    absence.end()
    assert pause_of(absence, clock) == 0.25


def test_calls_that_fail_together_are_one_failure() -> None:
    clock = ManualClock()
    absence = Absence(clock)
    for _ in range(16):
        absence.begin()
    clock.advance(0.25)
    assert not absence.lasts
    assert pause_of(absence, clock) == 0.5


def test_a_failure_long_after_another_is_the_first() -> None:
    clock = ManualClock()
    absence = Absence(clock)
    for _ in range(5):
        pause_of(absence, clock)
    clock.advance(60.0)
    assert pause_of(absence, clock) == 0.25
