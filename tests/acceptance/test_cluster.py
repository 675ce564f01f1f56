"""`make up-cluster`: a cluster on one machine, started, broken under load, judged and ended."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from acceptance.shell import clean_environment
from fixtures.etcd import etcd_binary
from fixtures.valkey import valkey_binary

pytestmark = [pytest.mark.fault, pytest.mark.postgres, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SMALL = ("--apis", "1", "--schedulers", "1", "--workers", "1", "--etcd", "1", "--shards", "1")


@pytest.fixture(autouse=True)
def servers() -> None:
    etcd_binary()
    valkey_binary()


@contextmanager
def cluster(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A cluster, of which nothing is left even when the test fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.cluster", *arguments],
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


@pytest.mark.timeout(300)
def test_everything_that_was_accepted_runs_while_one_of_each_is_killed() -> None:
    sizes = ("--schedulers", "2", "--workers", "2", "--rate", "20")
    with cluster("--check", *sizes) as process:
        said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert said.count(" yes ") == 11, said
    assert said.endswith("all is well\n"), said


@pytest.mark.timeout(200)
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    with cluster(*SMALL) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("ready; Ctrl-C"):
                break
        shell_file = re.search(r"shell: \. (\S+)", said)
        assert shell_file is not None, said
        directory = str(Path(shell_file[1]).parent)
        for part in ("postgres-1", "etcd-1", "redis-1", "api-1", "scheduler-1", "worker-1"):
            assert part in said
        # What it says is enough to use it.
        done = subprocess.run(
            f". {shell_file[1]}; {sys.executable} -m mainspring tasks submit greet --wait",
            shell=True,
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        running = psutil.Process(process.pid).children(recursive=True)
        assert len(running) >= 6
        os.kill(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=90)
        assert process.returncode == 0, rest
        assert not Path(directory).exists()
        assert [one for one in running if one.is_running()] == []
