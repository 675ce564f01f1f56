from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.trial.baseline import (
    baseline_of,
    compare,
    is_comparable,
    read_baseline,
    write_baseline,
)
from mainspring.domain.errors import InvalidValue

SETTINGS = {
    "mainspring": "1.0.0",
    "tasks": 1000,
    "processes": 1,
    "pending": 0,
    "waiting": 0,
    "cores": 2,
}


def report(life: float = 10_000, p99: float = 12.0, reference: float = 20_000) -> dict[str, Any]:
    return {
        "life_cycle_per_s": life,
        "lateness_ms": {"p50": 4.0, "p99": p99, "max": 30.0},
        "idle_worker_cpu_percent": 0.4,
        "reference_per_s": reference,
        "settings": dict(SETTINGS),
    }


def regressions(now: dict[str, Any], before: dict[str, Any]) -> set[str]:
    return {one.figure for one in compare(now, baseline_of(before)) if one.is_regression}


def test_the_same_figures_are_no_regression() -> None:
    assert not regressions(report(), report())


def test_a_slower_machine_is_no_regression() -> None:
    assert not regressions(report(life=5000, reference=10_000), report())


@pytest.mark.parametrize(("life", "is_regression"), [(7600, False), (7400, True)])
def test_a_rate_may_fall_by_the_noise_and_not_more(life: float, is_regression: bool) -> None:
    assert ("life_cycle_per_s" in regressions(report(life=life), report())) is is_regression


@pytest.mark.parametrize(("p99", "is_regression"), [(36.0, False), (38.0, True)])
def test_lateness_may_grow_by_the_noise_and_not_more(p99: float, is_regression: bool) -> None:
    assert ("lateness_p99_ms" in regressions(report(p99=p99), report())) is is_regression


def test_a_figure_that_only_one_of_them_has_is_not_compared() -> None:
    before = report()
    del before["lateness_ms"]
    assert {one.figure for one in compare(report(), baseline_of(before))} == {"life_cycle_per_s"}


def test_other_plans_and_machines_are_not_comparable() -> None:
    now = report()
    assert is_comparable(now, baseline_of(report()))
    now["settings"]["cores"] = 64
    assert not is_comparable(now, baseline_of(report()))


def test_a_baseline_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, report())
    assert read_baseline(path) == baseline_of(report())


def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    with pytest.raises(InvalidValue, match="baseline is"):
        read_baseline(path)
    path.write_text("{}")
    with pytest.raises(InvalidValue, match="cannot be read"):
        read_baseline(path)
