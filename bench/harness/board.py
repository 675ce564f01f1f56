"""Where the handlers of a run leave their marks, and what the marks say."""

import os
import shutil
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from bench.harness.places import MEMORY

_POLL_SECONDS: Final = 0.003
_STALL_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 1.0
_RECORD: Final = struct.Struct("d")


class Arrival(NamedTuple):
    """How many tasks had run when, at the start and at the end of a wait."""

    first_at: float
    first_count: int
    last_at: float
    last_count: int

    @property
    def rate(self) -> float:
        """Tasks a second from the first to the last one seen."""
        elapsed = self.last_at - self.first_at
        return (self.last_count - self.first_count) / elapsed if elapsed > 0 else 0.0


class Board:
    """A directory in memory. Files are emptied, never replaced: workers keep them open."""

    def __init__(self, name: str) -> None:
        self.path = MEMORY / f"mainspring-bench-{os.getpid()}-{name}"
        self.path.mkdir(parents=True, exist_ok=True)
        self.clear()

    def clear(self) -> None:
        for name in ("hits", "late", "due", "slow"):
            (self.path / name).write_bytes(b"")

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def hits(self) -> int:
        """Return how many tasks have run."""
        return (self.path / "hits").stat().st_size

    def wait(self, count: int, timeout: float, look: Callable[[], None] | None = None) -> Arrival:
        """Wait until so many tasks have run; gives up at the timeout or when nothing moves.

        `look` is called now and then, and may raise.
        """
        begun = moved = looked = time.time()
        first_at = first_count = None
        seen = self.hits()
        while True:
            now, hits = time.time(), self.hits()
            if hits and first_count is None:
                first_at, first_count = now, hits
            if hits != seen:
                seen, moved = hits, now
            if hits >= count or now - begun > timeout or (hits and now - moved > _STALL_SECONDS):
                return Arrival(first_at or now, first_count or 0, now, hits)
            if look is not None and now - looked > _LOOK_SECONDS:
                look()
                looked = now
            time.sleep(_POLL_SECONDS)

    def lateness(self, count: int) -> list[float]:
        """Return by how many seconds each of the scheduled tasks was late, in ascending order."""
        data = (self.path / "late").read_bytes()
        values = [value for (value,) in _RECORD.iter_unpack(data[: len(data) // 8 * 8])]
        return sorted(value for value in values[:count] if value)

    def late_by_due_time(self) -> list[tuple[float, float]]:
        """Return when each task that was noted was due and by how much it was late."""
        columns = [(self.path / name).read_bytes() for name in ("due", "late")]
        dues, lates = ([v for (v,) in _RECORD.iter_unpack(c[: len(c) // 8 * 8])] for c in columns)
        return [(due, late) for due, late in zip(dues, lates, strict=False) if due and late]

    def slow_runs(self) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """Return when each slow task was started and when it ended, every time it was."""
        runs: dict[str, dict[int, list[float]]] = {
            "start": defaultdict(list),
            "end": defaultdict(list),
        }
        for line in (self.path / "slow").read_text().splitlines():
            word, number, at = line.split()
            runs[word][int(number)].append(float(at))
        return runs["start"], runs["end"]


def quantile(ordered: list[float], share: float) -> float:
    """Return the value that a share of an ascending list is at most; nan for an empty one."""
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def remove_boards(path: Path = MEMORY) -> None:
    """Remove what earlier runs left behind that were ended from outside."""
    for left in path.glob("mainspring-bench-*"):
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
