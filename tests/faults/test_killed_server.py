"""Kill -9 of PostgreSQL under submission: nothing acknowledged is lost, and all go on alone."""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from faults.history import read_lines
from faults.stage import Program, Stage, eventually
from fixtures.postgres import free_port, migrate
from mainspring.adapters.postgres.embedded import EmbeddedPostgres

pytestmark = [pytest.mark.fault, pytest.mark.postgres]

KILLS = 3
CALLERS = 8
SUBMITTERS = ("plain", "keyed")
ACKNOWLEDGED_BETWEEN = 200
RECOVERY_SECONDS = 5.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "data", port=free_port())
    server.start_blocking()
    yield server
    server.stop_blocking()


@pytest.fixture
async def stage(server: EmbeddedPostgres, tmp_path: Path) -> AsyncIterator[Stage]:
    await migrate(server.dsn)
    stage = Stage(tmp_path, server.dsn)
    yield stage
    stage.end()


def answers(log: Path, event: str) -> list[str]:
    return [
        task for record in read_lines(log) if record["event"] == event for task in record["tasks"]
    ]


async def kill_and_restart(server: EmbeddedPostgres, submitters: Sequence[Program]) -> None:
    """Kill all of a server at one moment of its submitters, and start it again.

    They stand still meanwhile: whoever has lost one connection would use the next one, which is
    about to be lost, and then more would be unknown than was on its way when the server died.
    """
    assert server.pid is not None
    postmaster = psutil.Process(server.pid)
    victims = [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]
    # Nothing between these lines: the server must die before it has answered everybody.
    for submitter in submitters:
        submitter.send(signal.SIGSTOP)
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    for submitter in submitters:
        submitter.send(signal.SIGCONT)
    await server.stop()
    await server.start()


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    stage: Stage, server: EmbeddedPostgres, tmp_path: Path
) -> None:
    await stage.scheduler()
    worker = await stage.worker()
    logs = {kind: tmp_path / f"{kind}.jsonl" for kind in SUBMITTERS}
    submitters = [stage.submitter(log, callers=CALLERS, kind=kind) for kind, log in logs.items()]

    async def more(seconds: float) -> None:
        """Wait until each submitter has so many more acknowledged."""
        before = {log: len(answers(log, "ok")) for log in logs.values()}
        await eventually(
            lambda: all(
                len(answers(log, "ok")) >= before[log] + ACKNOWLEDGED_BETWEEN for log in before
            ),
            "more acknowledged submissions",
            seconds,
        )

    await more(30.0)
    for _ in range(KILLS):
        await kill_and_restart(server, submitters)
        up_at = time.time()
        done = len(stage.events("done"))
        await more(10 + RECOVERY_SECONDS)
        await stage.happens("done", done + ACKNOWLEDGED_BETWEEN)
        first = {
            kind: min(
                record["at"]
                for record in read_lines(log)
                if record["event"] == "ok" and record["at"] > up_at
            )
            for kind, log in logs.items()
        }
        worked = min(record["at"] for record in stage.events("done")[done:])
        print(
            f"accepted again after {[f'{at - up_at:.2f} s' for at in first.values()]}, "
            f"executed after {worked - up_at:.2f} s"
        )
        assert max([*first.values(), worked]) - up_at <= RECOVERY_SECONDS
    for submitter in submitters:
        assert submitter.process.poll() is None, submitter.said
        submitter.end()
    await stage.settled(60.0)

    assert worker.process.poll() is None
    for kind, log in logs.items():
        asked, ok, unknown = (set(answers(log, event)) for event in ("ask", "ok", "unknown"))
        stage.accepted |= ok
        print(f"{kind}: {len(asked)} asked, {len(ok)} acknowledged, {len(unknown)} unknown")
        # An honest "unknown" for what was on its way, and never more than that.
        assert answers(log, "refused") == []
        assert len(unknown) <= (0 if kind == "keyed" else KILLS * CALLERS)
    history = await stage.history()
    history.uncertain = {task for log in logs.values() for task in answers(log, "ask")}
    assert history.violations() == []
