"""What a worker needs in memory and processor time while many tasks wait for a later day."""

import time
from typing import Any, Final

from bench.harness.contestants import Contestant, workers_of
from bench.harness.meters import cpu_seconds, memory_megabytes
from bench.harness.round import Round
from bench.harness.servers import Servers

SETTLE_SECONDS: Final = 12.0
PROBE_TASKS: Final = 2000
_SAMPLE_SECONDS: Final = 1.0


def future_tasks(
    contestant: Contestant, servers: Servers, number: int, count: int
) -> dict[str, Any]:
    """Measure a worker without and then with so many future tasks stored."""
    round_ = Round(contestant, servers, number)
    try:
        round_.start_workers(1)
        round_.crew.start(contestant.beside)
        time.sleep(2)
        empty = memory_megabytes(round_.crew.pids())
        round_.crew.stop()
        sent = round_.client.call("future", count)
        round_.crew.start([*workers_of(contestant, 1), *contestant.beside])
        peak = 0.0
        end = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < end:
            time.sleep(_SAMPLE_SECONDS)
            peak = max(peak, memory_megabytes(round_.crew.pids()))
        own, store = cpu_seconds(round_.crew.pids()), servers.cpu_seconds()
        time.sleep(5)
        pids = round_.crew.pids()
        figures: dict[str, Any] = {
            "future_tasks": count,
            "stored_per_s": round(count / sent["seconds"]),
            "megabytes_empty": round(empty, 1),
            "megabytes_peak": round(peak, 1),
            "idle_worker_percent": round((cpu_seconds(pids) - own) / 5 * 100, 2),
            "idle_store_percent": round((servers.cpu_seconds() - store) / 5 * 100, 2),
        }
        before = round_.board.hits()
        ran = min(PROBE_TASKS, contestant.bulk)
        round_.client.begin("bulk", ran)
        done = round_.board.wait(before + ran, 60)
        begun = round_.client.end()["started"]
        figures["immediate_per_s"] = round((done.last_count - before) / (done.last_at - begun), 1)
        return figures
    finally:
        round_.close()
