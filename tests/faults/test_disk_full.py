"""A full disk under the server: a clear answer, nothing acknowledged lost, and no need of help."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.stage import Stage, client
from fixtures.postgres import free_port, migrate
from mainspring import Mainspring, MainspringError, Unavailable
from mainspring.adapters.postgres.embedded import EmbeddedPostgres

pytestmark = [
    pytest.mark.fault,
    pytest.mark.postgres,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk"),
]

DISK_MEGABYTES = 144
NO_ROOM = 256 << 10
"""Too little for a table to grow; the log of the server has its next files already."""

LITTLE_ROOM = 6 << 20
"""Enough for tables, until the log needs a new file: then the server stops with a panic."""

RECOVERY_SECONDS = 30.0
PAYLOAD = {"text": "".join(f"{number * number}-" for number in range(8000))}
"""About 70 KB that hardly compress."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    options = f"size={DISK_MEGABYTES}m,mode=0755"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def server(disk: Path) -> Iterator[EmbeddedPostgres]:
    settings = {"max_wal_size": "32MB", "shared_buffers": "16MB"}
    server = EmbeddedPostgres(disk / "data", port=free_port(), settings=settings)
    server.start_blocking()
    yield server
    server.stop_blocking()


def fill(disk: Path, room_bytes: int) -> Path:
    """Leave only so much room."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    state = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - room_bytes)
    return ballast


async def submit_until_refused(stage: Stage, app: Mainspring) -> MainspringError:
    """Submit large tasks until one is not accepted, in time."""
    while True:
        task = app.new_task("work", PAYLOAD)
        started = time.monotonic()
        try:
            await app.submit(task)
        except MainspringError as error:
            seconds = time.monotonic() - started
            print(f"{len(stage.accepted)} accepted; then after {seconds:.2f} s: {error}")
            assert seconds < app.settings.submit_timeout_seconds + 1
            return error
        stage.accepted.add(str(task.id))


async def is_accepted(stage: Stage, app: Mainspring) -> bool:
    """Whether a small submission is accepted now; anything but a passing refusal is raised."""
    try:
        await stage.submit(app, 1, "work")
    except Unavailable:
        return False
    return True


async def test_a_full_disk_is_answered_clearly_and_survived(
    disk: Path, server: EmbeddedPostgres, tmp_path: Path
) -> None:
    await migrate(server.dsn)
    stage = Stage(tmp_path, server.dsn)
    async with client(server.dsn) as app:
        await stage.submit(app, 10, "work", **PAYLOAD)
        fill(disk, NO_ROOM)
        full = await submit_until_refused(stage, app)
        assert full.code == "store_full"
        assert "no room left on its disk" in str(full)
        ballast = fill(disk, LITTLE_ROOM)
        assert isinstance(await submit_until_refused(stage, app), Unavailable)
        assert isinstance(await submit_until_refused(stage, app), Unavailable)

        ballast.unlink()
        freed = time.monotonic()
        if server.pid is None:
            await server.stop()
            await server.start()
            print("the server had given up and was started again")
        while not await is_accepted(stage, app):
            assert time.monotonic() - freed < RECOVERY_SECONDS
        print(f"accepted again {time.monotonic() - freed:.2f} s after there was room")
    assert stage.accepted <= {row.task for row in await stage.rows()}
