"""An installation that runs, and a directory in which nothing does."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acceptance.shell import APP, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Commands in an empty directory."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A directory in which `mainspring up` runs with an app, shared by the tests of the session."""
    directory = tmp_path_factory.mktemp("up")
    (directory / "acceptance_app.py").write_text(APP)
    shell = Shell(directory)
    running = shell.start("up", "--app", "acceptance_app:app", "--processes", 1)
    try:
        running.until("ready")
        shell.process = psutil.Process(running.process.pid)
        shell.api_url = next(line.split()[-1] for line in running.said if line.startswith("API:"))
        yield shell
    finally:
        assert running.stop() == 0, running.said
