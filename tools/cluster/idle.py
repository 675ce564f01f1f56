"""How much processor time each process takes while nothing is to be done."""

import asyncio
from typing import NamedTuple

import psutil
from tools.cluster.programs import Postgres
from tools.cluster.running import Cluster

SHARE_MAX = 0.05
"""Of one core, for one process."""


class Usage(NamedTuple):
    """What one process took; a PostgreSQL server with all of its processes counts as one."""

    name: str
    pid: int
    share: float
    megabytes: float


async def measure(cluster: Cluster, seconds: float) -> list[Usage]:
    """Watch every process, with all that it started, for so long."""
    before = _processes(cluster)
    times = {process.pid: _time(process) for _, process in before}
    await asyncio.sleep(seconds)
    found: dict[str, Usage] = {}
    for name, process in before:
        try:
            used = (_time(process) - times[process.pid]) / seconds
            size = process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
        one = found.get(name, Usage(name, process.pid, 0.0, 0.0))
        found[name] = one._replace(share=one.share + used, megabytes=one.megabytes + size)
    return list(found.values())


def _processes(cluster: Cluster) -> list[tuple[str, psutil.Process]]:
    found: list[tuple[str, psutil.Process]] = []
    for part in cluster.parts:
        if part.pid is None:
            continue
        root = psutil.Process(part.pid)
        found.append((part.name, root))
        children = root.children(recursive=True)
        is_one = isinstance(part, Postgres)
        found += [
            (part.name if is_one else f"{part.name}: {_kind(child)}", child) for child in children
        ]
    return found


def _kind(process: psutil.Process) -> str:
    words = process.cmdline()
    if "mainspring.cli.runner" in words:
        return "runner"
    return " ".join(words)[:40] or process.name()


def _time(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
