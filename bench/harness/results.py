"""Results on disk: each part is written as it finishes, so a run can go on where it stopped."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from bench.harness.meters import CORES

_SHOWN_DIGITS: Final = 1


class Results:
    """A directory with one JSON file for each part."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def read(self, part: str) -> dict[str, Any]:
        """Return what is known of a part; nothing if it was not begun."""
        path = self.directory / f"{part}.json"
        if not path.exists():
            return {}
        return cast("dict[str, Any]", json.loads(path.read_text()))

    def write(self, part: str, content: Mapping[str, Any]) -> None:
        """Replace a part's file; a half-written one never exists."""
        path = self.directory / f"{part}.json"
        fresh = path.with_suffix(".tmp")
        fresh.write_text(json.dumps(content, indent=1) + "\n")
        fresh.replace(path)

    def once(self, part: str, step: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a step of a part unless its result is there; a step that fails is noted."""
        known = self.read(part)
        if step not in known or "failed" in known[step]:
            try:
                outcome = work()
            except (RuntimeError, OSError, TimeoutError) as error:
                outcome = {"failed": f"{type(error).__name__}: {error}"}
            known = self.read(part)
            known[step] = outcome
            self.write(part, known)
        return cast("dict[str, Any]", known[step])


def machine() -> dict[str, Any]:
    """Describe what the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": CORES,
        "processor": _processor(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def medians(rounds: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of every figure over the rounds that have it; parts of figures too."""
    values: dict[str, list[Any]] = {}
    for one in rounds:
        for name, value in one.items():
            values.setdefault(name, []).append(value)
    combined: dict[str, Any] = {}
    for name, found in values.items():
        if all(isinstance(value, Mapping) for value in found):
            combined[name] = medians(found)
        elif all(isinstance(value, int | float) for value in found):
            combined[name] = round(statistics.median(found), 3)
        else:
            combined[name] = found[-1]
    return combined


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows as a Markdown table."""
    lines = [f"| {' | '.join(head)} |"]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    lines.extend(f"| {' | '.join(shown(cell) for cell in row)} |" for row in rows)
    return "\n".join(lines)


def shown(value: object) -> str:
    """Return a cell as people read it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.{_SHOWN_DIGITS}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
