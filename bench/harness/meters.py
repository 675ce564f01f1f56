"""Processor time and memory of process trees, and who else used the machine."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import psutil

CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
NOISY_SHARE: Final = 0.12
"""A run during which others used more than this share of the machine is repeated once."""


def tree_of(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes with these ids and everything below them."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                found[each.pid] = each
    return list(found.values())


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor time that the trees have used, counting children that have ended."""
    total = 0.0
    for process in tree_of(pids):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory_megabytes(pids: Iterable[int]) -> float:
    """Return the resident memory of the trees; pages that are shared count for each."""
    total = 0
    for process in tree_of(pids):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total / 1e6


class Reading(NamedTuple):
    """The machine's busy seconds and ours, at one moment."""

    at: float
    machine: float
    ours: float


def read(ours: float) -> Reading:
    """Take a reading; `ours` is the processor time of everything that belongs to the run."""
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return Reading(time.monotonic(), busy, ours)


def foreign_share(before: Reading, after: Reading) -> float:
    """Return the share of all cores that others used between two readings."""
    elapsed = (after.at - before.at) * (CORES or 1)
    others = (after.machine - before.machine) - (after.ours - before.ours)
    return max(0.0, others / elapsed) if elapsed > 0 else 0.0
