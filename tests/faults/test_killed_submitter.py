"""Kill -9 of a submitting process: what it was told is stored, and no batch is stored in part."""

import signal
from pathlib import Path

import pytest

from faults.history import read_lines
from faults.stage import Stage, eventually
from faults.submitter import BATCH

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

KILLS = 3


async def test_a_killed_submitter_leaves_whole_batches_and_all_that_was_acknowledged(
    stage: Stage, tmp_path: Path
) -> None:
    stored: set[str] = set()
    for number in range(KILLS):
        log = tmp_path / f"submitter-{number}.jsonl"
        submitter = stage.submitter(log, callers=3, kind="batch")
        await eventually(
            lambda log=log: sum(r["event"] == "ok" for r in read_lines(log)) >= 4,  # type: ignore[misc]
            "acknowledged batches",
        )
        submitter.send(signal.SIGKILL)
        await submitter.ended()
        # Its last request may still be on its way through the server.
        await stage.ask(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'mainspring'"
        )
        stored = {row.task for row in await stage.rows()}
        batches = [record["tasks"] for record in read_lines(log) if record["event"] == "ask"]
        acknowledged = [record["tasks"] for record in read_lines(log) if record["event"] == "ok"]
        assert all(stored.issuperset(batch) for batch in acknowledged)
        assert {len(stored.intersection(batch)) for batch in batches} <= {0, BATCH}
        stage.accepted.update(task for batch in batches for task in batch if task in stored)
    assert stored == stage.accepted

    await stage.worker(concurrency=100)
    await stage.settled(60.0)
    assert (await stage.history()).violations() == []
