"""Figures of an earlier version to compare with: rates as ratios to a fixed piece of work.

A rate by itself says as much about the machine as about us. Its ratio to what the same machine did
of the fixed work in the same run (`adapters.postgres.yardstick`) says whether we became slower.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mainspring.domain.errors import InvalidValue

DEFAULT_PATH: Final = Path("bench/baseline.json")
NOISE: Final = 0.25
"""How much a ratio may fall before it counts as a regression: one machine differs by so much."""

_LATENESS_FACTOR: Final = 2.0
_LATENESS_SLACK_MS: Final = 25.0
_PLAN: Final = ("tasks", "processes", "pending", "waiting", "cores")


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of an earlier version."""

    mainspring: str
    plan: dict[str, int]
    ratios: dict[str, float]
    """Each rate divided by the rows a second of the fixed work."""

    lateness_p99_ms: float | None = None
    noise: float = NOISE


class Comparison(NamedTuple):
    """One figure, then and now."""

    figure: str
    before: float
    now: float
    is_regression: bool

    @property
    def change(self) -> str:
        """The change in percent."""
        return f"{(self.now / self.before - 1) * 100:+.0f} %" if self.before else "-"


def baseline_of(report: Mapping[str, Any]) -> Baseline:
    """Return a report's figures as the baseline of later versions."""
    settings = report["settings"]
    return Baseline(
        mainspring=settings["mainspring"],
        plan={name: settings[name] for name in _PLAN},
        ratios=_ratios(report),
        lateness_p99_ms=report.get("lateness_ms", {}).get("p99"),
    )


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; raises `InvalidValue` when the file is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Baseline)
    except (OSError, msgspec.MsgspecError) as error:
        message = f"baseline is {str(path)!r}, which cannot be read: {error}"
        raise InvalidValue(message, field="baseline") from None


def write_baseline(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report's figures as a baseline."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(baseline_of(report))) + b"\n")


def is_comparable(report: Mapping[str, Any], baseline: Baseline) -> bool:
    """Return whether the baseline was measured with the same plan on as many cores."""
    return all(report["settings"][name] == value for name, value in baseline.plan.items())


def compare(report: Mapping[str, Any], baseline: Baseline) -> list[Comparison]:
    """Compare every figure that both have."""
    now = _ratios(report)
    found = [
        Comparison(name, before, now[name], now[name] < before * (1 - baseline.noise))
        for name, before in baseline.ratios.items()
        if name in now
    ]
    late = report.get("lateness_ms", {}).get("p99")
    if late is not None and baseline.lateness_p99_ms is not None:
        limit = max(
            baseline.lateness_p99_ms * _LATENESS_FACTOR,
            baseline.lateness_p99_ms + _LATENESS_SLACK_MS,
        )
        found.append(Comparison("lateness_p99_ms", baseline.lateness_p99_ms, late, late > limit))
    return found


def _ratios(report: Mapping[str, Any]) -> dict[str, float]:
    reference = report["reference_per_s"]
    return {
        name: round(value / reference, 4)
        for name, value in report.items()
        if name.endswith("_per_s") and name != "reference_per_s"
    }
