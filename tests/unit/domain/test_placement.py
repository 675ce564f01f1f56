import random

import pytest

from mainspring.domain.errors import InvalidValue
from mainspring.domain.namespaces import plain_branch, plain_queue, stored_queue
from mainspring.domain.placement import (
    LABELS_MAX,
    OFFERED_MAX,
    Load,
    Young,
    base_of,
    branch_of,
    can_take,
    check_labels,
    check_offered,
    labels_of,
    share_of,
)
from mainspring.domain.values import check_name


def load(name: str, running: int, slots: int = 10) -> Load:
    return Load(name, ("gpu",), None, ("mail",), slots, running)


def young(count: int) -> Young:
    return Young("q@gpu", count, ("mail",))


@pytest.mark.parametrize("given", ["region=eu,gpu", ["gpu", "region=eu"], ("region=eu", "gpu")])
def test_equal_sets_of_labels_have_one_form(given: object) -> None:
    assert check_labels(given) == ("gpu", "region=eu")
    assert branch_of("q", check_labels(given)) == "q@gpu,region=eu"


@pytest.mark.parametrize("given", [[], (), "", " , "])
def test_no_labels_are_none(given: object) -> None:
    assert check_labels(given) == ()
    assert branch_of("q", ()) == "q"


@pytest.mark.parametrize(
    "given",
    [
        7,
        {"gpu": 1},
        [""],
        ["a b"],
        ["a=b=c"],
        ["=b"],
        ["a="],
        ["é"],
        ["a@b"],
        ["a~b"],
        ["a,b"],
        [1],
        ["x" * 64],
        ["region=eu", "region=us"],
        ["region", "region=us"],
        [f"k{n}" for n in range(LABELS_MAX + 1)],
        ["gpu"] * (LABELS_MAX + 1),
    ],
)
def test_other_labels_are_refused(given: object) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_labels(given, "task.labels")
    assert refused.value.field == "task.labels"


def test_a_worker_may_offer_several_values_and_more_labels() -> None:
    assert check_offered("region=eu,region=us,gpu") == ("gpu", "region=eu", "region=us")
    with pytest.raises(InvalidValue, match="give at most 64"):
        check_offered([f"k{n}" for n in range(OFFERED_MAX + 1)])


def test_what_a_branch_is_stored_as_comes_apart_again() -> None:
    stored = stored_queue("tenant", branch_of("reports", ("gpu", "region=eu")))
    assert (plain_queue(stored), plain_branch(stored)) == ("reports", "reports@gpu,region=eu")
    assert (base_of(stored), labels_of(stored)) == ("tenant~reports", ("gpu", "region=eu"))
    assert labels_of("reports") == ()
    with pytest.raises(InvalidValue):
        check_name("reports@gpu", "queue")


def test_a_worker_can_take_what_needs_no_more_than_it_offers() -> None:
    assert can_take(("gpu", "x"), None, "q@gpu")
    assert can_take((), None, "q")
    assert not can_take(("gpu",), None, "q@gpu,x")
    assert not can_take(("gpu",), ("other",), "q@gpu")
    assert can_take(("gpu",), ("q",), "q@gpu")


def test_tasks_are_dealt_to_the_least_loaded() -> None:
    loads = [load("a", 2), load("b", 0), load("c", 0, slots=5)]
    # b and c fill up to the load of a, then all take turns by their slots.
    assert [share_of(young(3), name, 10, loads) for name in "abc"] == [0, 2, 1]
    assert [share_of(young(13), name, 10, loads) for name in "abc"] == [4, 6, 3]


def test_among_equals_it_is_the_one_that_asks() -> None:
    loads = [load("a", 1), load("b", 1)]
    assert [share_of(young(1), name, 10, loads) for name in "ab"] == [1, 1]


def test_what_the_others_have_no_room_for_is_left_to_the_one_that_asks() -> None:
    assert share_of(young(50), "a", 10, [load("a", 10), load("b", 4)]) == 44
    assert share_of(young(5), "new", 3, [load("b", 9)]) == 5 - 1


@pytest.mark.parametrize(
    "other",
    [
        Load("b", (), None, ("mail",), 10, 0),
        Load("b", ("gpu",), ("other",), ("mail",), 10, 0),
        Load("b", ("gpu",), None, ("other",), 10, 0),
        Load("b", ("gpu",), None, ("mail",), 10, 10),
    ],
)
def test_whoever_cannot_take_them_is_dealt_nothing(other: Load) -> None:
    assert share_of(young(4), "a", 10, [load("a", 9), other]) == 4


def test_shares_taken_one_after_the_other_leave_the_workers_equally_loaded(
    rng: random.Random,
) -> None:
    for _ in range(50):
        slots = [rng.randint(1, 20) for _ in range(4)]
        held = [rng.randint(0, most) for most in slots]
        left = rng.randint(0, sum(slots) - sum(held))
        for name in rng.sample(range(4), 4):
            loads = [load(str(at), held[at], slots[at]) for at in range(4)]
            share = share_of(young(left), str(name), 10, loads)
            held[name] += share
            left -= share
        assert left == 0
        assert all(held[at] <= slots[at] for at in range(4))
