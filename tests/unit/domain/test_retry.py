import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.domain.retry import (
    DELAY_MAX_SECONDS,
    JITTER,
    Backoff,
    BackoffKind,
    Verdict,
    classify,
)

chances = st.floats(0, 1, exclude_max=True)
seconds = st.floats(0, DELAY_MAX_SECONDS)
backoffs = st.builds(Backoff, st.sampled_from(BackoffKind), seconds, st.floats(0, 1e300), seconds)
failures = st.integers(1, 1001)


@given(backoffs, failures, chances)
def test_a_delay_is_bounded_whatever_is_asked(backoff: Backoff, failed: int, chance: float) -> None:
    delay = backoff.delay(failed, chance)
    most = backoff.base_seconds if backoff.kind is BackoffKind.FIXED else backoff.max_seconds
    assert math.isfinite(delay)
    assert 0 <= delay <= most * (1 + JITTER)


@given(backoffs, failures, chances)
def test_jitter_adds_up_to_a_quarter_and_takes_nothing(
    backoff: Backoff, failed: int, chance: float
) -> None:
    plain = backoff.delay(failed, 0.0)
    assert plain <= backoff.delay(failed, chance) <= plain * (1 + JITTER)


@given(backoffs, failures)
def test_delays_do_not_shrink(backoff: Backoff, failed: int) -> None:
    if backoff.multiplier >= 1:
        assert backoff.delay(failed, 0.0) <= backoff.delay(failed + 1, 0.0)


def test_the_default_is_that_of_the_requirements() -> None:
    delays = [Backoff().delay(failed, 0.0) for failed in range(1, 10)]
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_linear_and_fixed() -> None:
    linear = Backoff(BackoffKind.LINEAR, 5.0, max_seconds=17.0)
    assert [linear.delay(failed, 0.0) for failed in range(1, 6)] == [5, 10, 15, 17, 17]
    fixed = Backoff(BackoffKind.FIXED, 5.0)
    assert {fixed.delay(failed, 0.0) for failed in (1, 7, 1000)} == {5.0}


class HttpError(Exception):
    """As the common client libraries have it: on the error, or on its response."""

    def __init__(self, status: int, where: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        holder: Any = SimpleNamespace(headers=headers or {})
        if where.startswith("response."):
            self.response = holder
            setattr(holder, where.removeprefix("response."), status)
        else:
            self.headers = headers or {}
            setattr(self, where, status)


WHERE = ["status", "status_code", "code", "response.status", "response.status_code"]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("status", "again"),
    [
        *((status, False) for status in (400, 401, 402, 403, 404, 405, 410, 413, 422, 451)),
        *((status, True) for status in (408, 409, 423, 425, 429, 500, 502, 503, 504, 599)),
        *((status, True) for status in (0, 200, 302, 600, -1)),
    ],
)
def test_http_errors(status: int, again: bool, where: str) -> None:
    assert classify(HttpError(status, where)).again is again


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        ConnectionRefusedError(),
        OSError("network is unreachable"),
        RuntimeError("unknown"),
        ZeroDivisionError(),
        type("DeadlockDetectedError", (Exception,), {})(),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert classify(error) == Verdict(again=True)


class Unpayable(Exception):
    pass


class Overdrawn(Unpayable):
    pass


def test_what_the_task_calls_final_is_final_with_all_its_kinds() -> None:
    assert not classify(Overdrawn(), (Unpayable,)).again
    assert classify(Unpayable(), (Overdrawn,)).again
    assert not classify(type("ValidationError", (ValueError,), {})()).again


@pytest.mark.parametrize("where", ["status", "response.status_code"])
@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_the_time_that_the_server_names_is_kept(where: str, name: str) -> None:
    for status in (429, 503):
        verdict = classify(HttpError(status, where, {name: "120"}))
        assert verdict == Verdict(again=True, after_seconds=120.0)


@given(st.one_of(st.text(), st.integers().map(str), st.just("9" * 30)))
def test_no_header_breaks_it_or_delays_for_ever(header: str) -> None:
    verdict = classify(HttpError(503, "status", {"Retry-After": header}))
    assert verdict.again
    assert verdict.after_seconds is None or 0 <= verdict.after_seconds <= DELAY_MAX_SECONDS


@given(st.one_of(st.none(), st.booleans(), st.text(), st.floats(), st.binary(), st.integers()))
def test_strange_attributes_are_no_status(value: object) -> None:
    error = RuntimeError()
    error.status = value  # type: ignore[attr-defined]
    error.headers = value  # type: ignore[attr-defined]
    assert isinstance(classify(error).again, bool)
