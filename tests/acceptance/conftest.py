"""An installation that runs, and a directory in which nothing does."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from acceptance.forks import Forks
from acceptance.shell import APP, Shell


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """What runs the short commands of all tests."""
    with closing(Forks()) as opened:
        yield opened


@pytest.fixture
def shell(tmp_path: Path, forks: Forks) -> Shell:
    """Commands in an empty directory."""
    return Shell(tmp_path, forks)


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Shell]:
    """A directory in which `mainspring up` runs with an app, shared by the tests of the session."""
    directory = tmp_path_factory.mktemp("up")
    (directory / "acceptance_app.py").write_text(APP)
    shell = Shell(directory, forks)
    running = shell.start("up", "--app", "acceptance_app:app", "--processes", 1)
    try:
        running.until("ready")
        shell.process = psutil.Process(running.process.pid)
        shell.api_url = next(line.split()[-1] for line in running.said if line.startswith("API:"))
        yield shell
    finally:
        assert running.stop() == 0, running.said
