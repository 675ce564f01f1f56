from hypothesis import given
from hypothesis import strategies as st

from mainspring.worker.deadlines import Deadlines


def test_numbers_come_due_in_the_order_of_their_times() -> None:
    deadlines = Deadlines()
    for number, at in ((1, 30.0), (2, 10.0), (3, 20.0)):
        deadlines.set(number, at)
    assert deadlines.earliest() == 10.0
    assert deadlines.due(9.9) == []
    assert deadlines.due(20.0) == [2, 3]
    assert deadlines.due(100.0) == [1]
    assert deadlines.earliest() is None


def test_what_is_forgotten_never_comes_due() -> None:
    deadlines = Deadlines()
    deadlines.set(1, 10.0)
    deadlines.set(2, 11.0)
    deadlines.forget(1)
    deadlines.forget(99)
    assert deadlines.earliest() == 11.0
    assert deadlines.due(20.0) == [2]


def test_setting_again_replaces_the_time() -> None:
    deadlines = Deadlines()
    deadlines.set(1, 10.0)
    deadlines.set(1, 30.0)
    assert deadlines.due(20.0) == []
    assert deadlines.due(30.0) == [1]


def test_a_long_run_of_short_tasks_keeps_the_heap_small() -> None:
    deadlines = Deadlines()
    for number in range(50_000):
        deadlines.set(number, 300.0 + number)
        if number >= 100:
            deadlines.forget(number - 100)
    assert len(deadlines) == 100
    assert len(deadlines._heap) < 1000


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 100), st.booleans())))
def test_it_agrees_with_a_plain_table(steps: list[tuple[int, float, bool]]) -> None:
    deadlines = Deadlines()
    table: dict[int, float] = {}
    for number, at, forget in steps:
        if forget:
            deadlines.forget(number)
            table.pop(number, None)
        else:
            deadlines.set(number, at)
            table[number] = at
    due = deadlines.due(50.0)
    assert sorted(due) == sorted(number for number, at in table.items() if at <= 50.0)
    assert [table[number] for number in due] == sorted(table[number] for number in due)
