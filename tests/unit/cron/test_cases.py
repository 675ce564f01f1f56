"""The 44 verified cases of `tests/data/cron_cases.json`, most of them public bug reports."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring.domain.cron import CronExpression, GapRule

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "cron_cases.json").read_text()
)


def test_all_cases_are_there() -> None:
    assert [case["id"] for case in CASES] == list(range(1, 45))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['ref']}")
def test_case(case: dict[str, Any]) -> None:
    cron = CronExpression.parse(case["expr"], case["tz"])
    found: datetime | None = datetime.fromisoformat(case["after"])
    utc, local = [], []
    for _ in case["expect_utc"]:
        assert found is not None
        found = cron.next_after(found)
        assert found is not None
        utc.append(found.strftime("%Y-%m-%dT%H:%M:%SZ"))
        local.append(cron.clock.local(found).strftime("%a %Y-%m-%d %H:%M %z"))
    assert utc == case["expect_utc"]
    assert local == case["expect_local"]


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["expect_local_if_gap_skip"]],
    ids=lambda case: str(case["id"]),
)
def test_case_when_gaps_are_skipped(case: dict[str, Any]) -> None:
    cron = CronExpression.parse(case["expr"], case["tz"], gap=GapRule.SKIP)
    found: datetime | None = datetime.fromisoformat(case["after"])
    for expected in case["expect_local_if_gap_skip"]:
        assert found is not None
        found = cron.next_after(found)
        assert found is not None
        assert cron.clock.local(found).strftime("%a %Y-%m-%d %H:%M %z") == expected
