"""How partitions are shared out: evenly, the same for everyone, and with as few moves as can be."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.ids import PARTITIONS
from mainspring.domain.partitions import share_out, spans

names = st.sets(st.text("abcdefgh0123456789:-", min_size=1, max_size=12), min_size=1, max_size=70)


def moved(before: dict[int, str], after: dict[int, str]) -> int:
    return sum(before[one] != after[one] for one in range(PARTITIONS))


@settings(max_examples=40)
@given(members=names, chance=st.randoms(use_true_random=False))
def test_everything_has_an_owner_and_shares_differ_by_one_at_most(
    members: set[str], chance: random.Random
) -> None:
    holders = {
        one: chance.choice([*sorted(members), "somebody who is gone"])
        for one in range(PARTITIONS)
        if chance.random() < 0.8
    }
    owners = share_out(members, holders)
    assert sorted(owners) == list(range(PARTITIONS))
    shares = Counter(owners.values())
    assert max(shares.values()) - min(shares[member] for member in members) <= 1


@settings(max_examples=40)
@given(members=names)
def test_what_is_shared_out_stays_as_it_is(members: set[str]) -> None:
    owners = share_out(members, {})
    assert share_out(members, owners) == owners
    assert share_out(sorted(members, reverse=True), dict(reversed(owners.items()))) == owners


@settings(max_examples=40)
@given(members=names, member=st.just("zz-new"))
def test_a_new_member_takes_its_share_and_nothing_else_moves(
    members: set[str], member: str
) -> None:
    before = share_out(members, {})
    after = share_out(members | {member}, before)
    count = len(members) + 1
    assert {after[one] for one in range(PARTITIONS) if after[one] != before[one]} <= {member}
    assert moved(before, after) <= PARTITIONS / count + 0.1 * PARTITIONS
    assert moved(before, after) <= -(-PARTITIONS // count)


@settings(max_examples=40)
@given(members=names, data=st.data())
def test_only_the_share_of_a_member_that_is_gone_moves(
    members: set[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(members)))
    before = share_out(members, {})
    after = share_out(members - {gone}, before)
    if not after:
        return
    for one in range(PARTITIONS):
        assert (after[one] != before[one]) == (before[one] == gone)
    assert moved(before, after) <= PARTITIONS / len(members) + 0.1 * PARTITIONS


@settings(max_examples=40)
@given(members=names, seed=st.integers(0, 2**32))
def test_handing_over_step_by_step_ends_where_it_was_meant_to(members: set[str], seed: int) -> None:
    """Each member acts by itself on what it sees, in any order; nobody takes what is held."""
    chance = random.Random(seed)
    holders = {one: chance.choice(sorted(members)) for one in range(PARTITIONS)}
    for _ in range(4):
        for member in chance.sample(sorted(members), len(members)):
            owners = share_out(members, holders)
            for one in [one for one, holder in holders.items() if holder == member]:
                if owners[one] != member:
                    del holders[one]
            for one, owner in owners.items():
                if owner == member and one not in holders:
                    holders[one] = member
    assert share_out(members, holders) == holders


def test_nobody_is_there() -> None:
    assert share_out((), {1: "gone"}) == {}


def test_more_members_than_partitions() -> None:
    members = {f"m{number}" for number in range(100)}
    shares = Counter(share_out(members, {}).values())
    assert set(shares.values()) == {1}


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ((), "none"),
        ((5,), "5"),
        ((0, 1, 2), "0-2"),
        ((9, 3, 2, 5), "2-3, 5, 9"),
        (range(64), "0-63"),
    ],
)
def test_spans(partitions: tuple[int, ...], text: str) -> None:
    assert spans(partitions) == text
