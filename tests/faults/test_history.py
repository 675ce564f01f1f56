"""The checker itself: a clean history passes, and each planted violation is found."""

import dataclasses
from collections.abc import Callable

import pytest

from faults.history import Execution, Failed, History, Row

TASK = "a"


def clean() -> History:
    """Task a lost its first worker at 10.5, was taken back at 12 and completed by a second one."""
    return History(
        accepted={TASK},
        due={TASK: 10.0},
        deaths={1: 10.5},
        executions=[
            Execution(task=TASK, attempt=1, token=1, pid=1, started=10.1),
            Execution(
                task=TASK, attempt=2, token=3, pid=2, started=12.1, ended=13.0, outcome="done"
            ),
        ],
        rows=[
            Row(
                task=TASK,
                status="completed",
                attempt_count=2,
                max_retries=3,
                token=3,
                created=9.0,
                started=12.05,
                completed=13.1,
                failed=(Failed(attempt=1, kind="lease_expired", started=10.05, ended=12.0),),
            )
        ],
    )


def changed(history: History, **changes: object) -> None:
    history.rows = [dataclasses.replace(history.rows[0], **changes)]  # type: ignore[arg-type]


def lost(history: History) -> None:
    history.rows = []


def in_two_tables(history: History) -> None:
    history.rows *= 2


def invented(history: History) -> None:
    history.accepted = {"b"}


def without_end(history: History) -> None:
    changed(history, status="running", completed=None)


def started_after_the_end(history: History) -> None:
    changed(history, completed=12.0)


def early(history: History) -> None:
    history.due[TASK] = 10.2


def retried_early(history: History) -> None:
    history.executions[1].started = 11.9


def old_token_accepted(history: History) -> None:
    changed(history, token=1)


def token_fell(history: History) -> None:
    history.executions[0].token = 4


def two_leases(history: History) -> None:
    changed(history, started=11.0)


def overlap_without_expiry(history: History) -> None:
    del history.deaths[1]
    changed(history, failed=(Failed(attempt=1, kind="error", started=10.05, ended=12.0),))


def attempt_not_charged(history: History) -> None:
    changed(history, attempt_count=1)


def charged_twice(history: History) -> None:
    changed(history, attempt_count=3)


def too_many_attempts(history: History) -> None:
    changed(history, max_retries=0)


def dead_too_soon(history: History) -> None:
    changed(history, status="failed", attempt_count=1)


def one_lease_twice(history: History) -> None:
    history.executions.append(dataclasses.replace(history.executions[1], pid=3))


def success_without_execution(history: History) -> None:
    history.executions[1].outcome = None


def test_a_clean_history_has_no_violation() -> None:
    assert clean().violations() == []


def test_an_overlap_after_an_expired_lease_is_allowed() -> None:
    history = clean()
    history.executions[0].ended = 12.5
    history.executions[0].outcome = "done"
    assert history.violations() == []


@pytest.mark.parametrize(
    ("number", "plant"),
    [
        ("I1", lost),
        ("I2", invented),
        ("I3", in_two_tables),
        ("I3", without_end),
        ("I4", started_after_the_end),
        ("I6", early),
        ("I6", retried_early),
        ("I8", old_token_accepted),
        ("I8", token_fell),
        ("I9", two_leases),
        ("I10", overlap_without_expiry),
        ("I11", attempt_not_charged),
        ("I11", charged_twice),
        ("I11", too_many_attempts),
        ("I11", dead_too_soon),
        ("I12", one_lease_twice),
        ("I12", success_without_execution),
    ],
)
def test_each_planted_violation_is_found(number: str, plant: Callable[[History], None]) -> None:
    history = clean()
    plant(history)
    assert any(text.startswith(f"{number}:") for text in history.violations())
