"""What a limit may be, how it is written, and how it is divided among databases."""

import math
from typing import Any

import pytest

from mainspring.domain.errors import InvalidValue
from mainspring.domain.limits import (
    BURST_MAX,
    CONCURRENCY_MAX,
    RATE_MAX,
    RATE_MIN,
    Limit,
    checked_limit,
    divided,
    rate_text,
    together,
)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": -1}, "concurrency"),
        ({"concurrency": CONCURRENCY_MAX + 1}, "concurrency"),
        ({"concurrency": 1.0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": "2"}, "concurrency"),
        ({"rate": 0}, "rate"),
        ({"rate": -0.5}, "rate"),
        ({"rate": RATE_MIN / 2}, "rate"),
        ({"rate": RATE_MAX + 1}, "rate"),
        ({"rate": 10**400}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"rate": math.inf}, "rate"),
        ({"rate": True}, "rate"),
        ({"rate": "0/s"}, "rate"),
        ({"rate": "100"}, "rate"),
        ({"rate": "1/w"}, "rate"),
        ({"rate": "-1/s"}, "rate"),
        ({"rate": "1e3/s"}, "rate"),
        ({"rate": "\u0663/s"}, "rate"),
        ({"rate": ""}, "rate"),
        ({"rate": []}, "rate"),
        ({"burst": 5}, "burst"),
        ({"rate": 1, "burst": 0}, "burst"),
        ({"rate": 1, "burst": BURST_MAX + 1}, "burst"),
        ({"rate": 1, "burst": 1.5}, "burst"),
    ],
)
def test_what_is_no_limit(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked_limit(**given, prefix="queue.")
    assert caught.value.field == f"queue.{field}"
    assert caught.value.message.startswith(f"queue.{field} is ")


def test_the_ends_of_the_ranges_are_limits() -> None:
    checked_limit(1, RATE_MIN, 1)
    checked_limit(CONCURRENCY_MAX, RATE_MAX, BURST_MAX)
    assert checked_limit().is_none
    assert (Limit(rate=0.5).bucket, Limit(rate=2.5).bucket) == (1, 3)


@pytest.mark.parametrize(
    "text", ["100/s", "30/m", "1.5/s", "500/h", "1000/d", "1/d", "7/m", "0.5/d", "999999/s"]
)
def test_a_rate_is_shown_as_it_may_be_written(text: str) -> None:
    rate = checked_limit(rate=text).rate
    assert rate is not None
    assert math.isclose(checked_limit(rate=rate_text(rate)).rate or 0, rate, rel_tol=1e-5)


def test_the_usual_rates_are_shown_as_they_were_given() -> None:
    for text in ("100/s", "30/m", "1.5/s", "500/h", "1000/d", "7/m"):
        assert rate_text(checked_limit(rate=text).rate or 0) == text
    assert rate_text(math.pi) == "3.141593/s"


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(
    "limit",
    [
        Limit(),
        Limit(concurrency=64),
        Limit(concurrency=100),
        Limit(rate=100.0),
        Limit(rate=0.1, burst=64),
        Limit(concurrency=1000, rate=333.3, burst=999),
    ],
)
def test_parts_make_the_whole(limit: Limit, parts: int) -> None:
    shares = divided(limit, parts)
    assert together(shares) == limit
    counts = [share.concurrency or 0 for share in shares]
    assert sum(counts) == (limit.concurrency or 0)
    assert max(counts) - min(counts) <= 1
    assert counts == sorted(counts, reverse=True)
    if limit.rate is not None:
        assert sum(share.bucket for share in shares) == limit.bucket


def test_what_is_too_low_is_not_divided() -> None:
    with pytest.raises(InvalidValue, match="in 3 databases") as caught:
        divided(Limit(concurrency=2), 3)
    assert caught.value.field == "concurrency"
    with pytest.raises(InvalidValue, match="its burst is at least 3") as caught:
        divided(Limit(rate=2.0), 3)
    assert caught.value.field == "burst"
    assert len(divided(Limit(rate=2.0, burst=3), 3)) == 3


def test_a_part_without_a_limit_leaves_the_whole_without() -> None:
    assert together([Limit(concurrency=2, rate=1.0), Limit(rate=1.0)]) == Limit(rate=2.0)
