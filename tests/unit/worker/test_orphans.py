"""A worker that is the first process of a container buries what killed runners left behind."""

import subprocess
import sys

import pytest

# A process of its own, which gets orphans as the first process of a container does.
_ADOPTING = """
import ctypes, os, signal, subprocess
from mainspring.worker.orphans import bury_orphans

assert bury_orphans(()) == 0
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
runner = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
orphan = int(runner.stdout.readline())
runner.kill()
os.waitid(os.P_PID, runner.pid, os.WEXITED | os.WNOWAIT)
assert bury_orphans({runner.pid}) == 0
assert runner.wait() == -signal.SIGKILL
os.kill(orphan, signal.SIGKILL)
os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
assert bury_orphans({runner.pid}) == 1
assert bury_orphans(()) == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets any process adopt orphans")
def test_orphans_are_buried_and_our_own_children_are_left_to_who_started_them() -> None:
    done = subprocess.run([sys.executable, "-c", _ADOPTING], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
