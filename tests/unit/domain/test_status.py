import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.domain.status import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    TaskStatus,
    Transition,
    allows,
    apply,
)

S, T = TaskStatus, Transition


def exits(status: TaskStatus) -> set[Transition]:
    return {transition for transition in T if allows(transition, status)}


def test_every_transition_has_a_rule() -> None:
    assert set(TRANSITIONS) == set(T)


@pytest.mark.parametrize("status", [S.COMPLETED, S.CANCELLED, S.DISCARDED])
def test_nothing_leads_out_of_a_final_state(status: TaskStatus) -> None:
    assert exits(status) == set()


def test_a_dead_letter_is_left_by_replay_and_discard_alone() -> None:
    assert exits(S.FAILED) == {T.REPLAY, T.DISCARD}


def test_states_are_waiting_running_or_terminal() -> None:
    assert WAITING | {S.RUNNING} == LIVE
    assert set(S) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


def test_only_a_claim_makes_a_task_run() -> None:
    leading = {name for name, rule in TRANSITIONS.items() if rule.target is S.RUNNING}
    assert leading == {T.CLAIM}


def test_only_a_running_task_completes_or_fails() -> None:
    for target in (S.COMPLETED, S.FAILED, S.RETRYING):
        for rule in TRANSITIONS.values():
            if rule.target is target:
                assert rule.sources == {S.RUNNING}


def test_every_state_can_be_reached() -> None:
    reached = {S.PENDING}
    for _ in S:
        reached |= {apply(transition, status) for status in reached for transition in exits(status)}
    assert reached == set(S)


@given(st.sampled_from(T), st.sampled_from(S))
def test_what_is_not_allowed_is_refused(transition: Transition, status: TaskStatus) -> None:
    if allows(transition, status):
        assert apply(transition, status) == (TRANSITIONS[transition].target or status)
    else:
        with pytest.raises(ValueError, match=f"a task that is {status} cannot {transition}"):
            apply(transition, status)


@given(st.lists(st.sampled_from(T), max_size=60))
def test_no_walk_leaves_a_final_state(steps: list[Transition]) -> None:
    status = S.PENDING
    for step in steps:
        if not allows(step, status):
            continue
        assert status not in TERMINAL or (status is S.FAILED and step in {T.REPLAY, T.DISCARD})
        status = apply(step, status)
