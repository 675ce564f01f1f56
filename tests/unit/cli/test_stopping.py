"""Ctrl-C while a command is still being loaded."""

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, os, signal, sys
load = importlib.import_module

def interrupted(name, package=None):
    if name == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, package)

importlib.import_module = interrupted
from mainspring.cli import main
main(["tasks", "list"])
"""


@pytest.mark.parametrize("moment", ["mainspring.cli.root", "mainspring.cli.tasks"])
def test_it_leaves_quietly(moment: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, moment], capture_output=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr.strip()) == (130, b"", b"")
