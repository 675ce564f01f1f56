"""Kill -9 of `mainspring up` itself: no orphans, and the next start goes on where it was."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from faults.stage import LEASE_SECONDS, Stage, client, eventually, has_ended
from fixtures.postgres import free_port
from mainspring.wiring import state_file

pytestmark = [pytest.mark.fault, pytest.mark.postgres]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """An installation whose only program is `mainspring up`."""
    stage = Stage(tmp_path)
    yield stage
    stage.end()


async def test_everything_goes_on_after_the_one_process_was_killed(
    stage: Stage, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    # A port, so that the database has the same URL whatever the length of this directory's name.
    options = ("up", "--app", "faults.handlers:app", "--data", str(data), "--processes", "1")
    port = ("--embedded-port", str(free_port()))
    first = stage.start(*options, *port)
    await first.says("ready", 60.0)
    running = state_file.read(data)
    assert running is not None
    stage.database_url = running.database_url
    password = urlsplit(running.database_url).password
    assert password is not None
    # What is said ends in logs.
    assert password not in first.said
    async with client(stage.database_url) as app:
        await stage.submit(app, 3, "hold", gate=str(stage.gate))
        await stage.happens("start", 3)
        await stage.submit(app, 200, "work", seconds=0.2)
        await stage.happens("done", 10)
        family = first.family()
        killed_at = stage.kill(psutil.Process(first.pid))
        await first.ended()
        await eventually(lambda: all(map(has_ended, family)), "the end of all its processes")
        stage.deaths.update((member.pid, killed_at) for member in family)
        assert state_file.read(data) is None

        second = stage.start(*options, *port, database_url="")
        await second.says("ready", 60.0)
        await stage.settled(LEASE_SECONDS + 30)
        second.send(signal.SIGTERM)
        assert await second.ended() == 0

        third = stage.start(*options, *port, database_url="")
        await third.says("ready", 60.0)
        history = await stage.history()
    assert {row.status for row in history.rows} == {"completed"}
    assert history.violations() == []
    third.send(signal.SIGTERM)
    assert await third.ended() == 0
    assert not any(process.is_running() for process in third.family())


async def test_its_database_is_started_again_when_that_alone_is_killed(
    stage: Stage, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    everything = stage.start(
        *("up", "--app", "faults.handlers:app", "--data", str(data), "--processes", "1"),
        *("--embedded-port", str(free_port())),
    )
    await everything.says("ready", 60.0)
    running = state_file.read(data)
    assert running is not None
    stage.database_url = running.database_url
    postmaster = next(each for each in everything.family() if each.name() == "postgres")
    async with client(stage.database_url) as app:
        await stage.submit(app, 100, "work", seconds=0.05)
        await stage.happens("done", 5)
        servers = [postmaster, *postmaster.children(recursive=True)]
        for server in servers:
            server.kill()
        killed_at = time.time()
        await everything.says("PostgreSQL runs again")
        await stage.submit(app, 1, "work")
        print(f"accepted again {time.time() - killed_at:.2f} s after the kill of its database")
        await stage.settled(LEASE_SECONDS + 30)
    history = await stage.history()
    assert {row.status for row in history.rows} == {"completed"}
    assert history.violations() == []
    everything.send(signal.SIGTERM)
    assert await everything.ended() == 0
