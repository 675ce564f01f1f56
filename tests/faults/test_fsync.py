"""Kill -9 cannot show that data is on the disk: the page cache survives it. So the calls that put
it there are counted, with the server under strace.
"""

import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from faults.stage import Program, client, eventually
from fixtures.missing import skip_or_fail
from fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

SUBMISSIONS = 100
_FLUSH = re.compile(r"\bf(?:data)?sync\(\d+\)\s+= 0|<\.\.\. f(?:data)?sync resumed>.*= 0")


@asynccontextmanager
async def flushes_of(server: PostgresServer, directory: Path) -> AsyncIterator[list[str]]:
    """Collect the calls of the block with which the server's processes flushed to disk."""
    strace = shutil.which("strace")
    if strace is None:
        skip_or_fail("strace is not installed")
    assert server.embedded.pid is not None
    postmaster = psutil.Process(server.embedded.pid)
    pids = [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]
    calls = directory / "calls"
    command = [strace, "-f", "-e", "trace=fsync,fdatasync", "-o", str(calls)]
    command += [part for pid in pids for part in ("-p", str(pid))]
    tracer = Program(command, dict(os.environ), directory / "strace.log", cwd=directory)
    flushes: list[str] = []
    try:
        await eventually(
            lambda: tracer.said.count("attached") >= len(pids) or tracer.process.poll() is not None,
            "strace on every process of the server",
        )
        if tracer.process.poll() is not None:
            skip_or_fail(f"strace may not look at other processes here: {tracer.said.strip()}")
        yield flushes
    finally:
        tracer.send(signal.SIGINT)
        await tracer.ended()
    flushes.extend(line for line in calls.read_text().splitlines() if _FLUSH.search(line))


async def submit_one_by_one(database: str) -> None:
    async with client(database) as app:
        for number in range(SUBMISSIONS):
            await app.submit("nobody_runs_this", {"number": number})


async def test_each_acknowledged_submission_was_flushed_to_disk(
    database: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    async with flushes_of(postgres_server, tmp_path) as flushes:
        await submit_one_by_one(database)
    print(f"{len(flushes)} flushes for {SUBMISSIONS} acknowledged submissions")
    assert len(flushes) >= SUBMISSIONS


async def test_the_count_sees_a_server_that_does_not_flush(
    database: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    name = urlsplit(database).path[1:]
    await postgres_server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    async with flushes_of(postgres_server, tmp_path) as flushes:
        await submit_one_by_one(database)
    assert len(flushes) < SUBMISSIONS
