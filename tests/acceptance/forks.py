"""Commands in forks of one program that has loaded the command line.

A command in an interpreter of its own takes most of its time to load the same modules again.
"""

import array
import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE_SECONDS = 100.0
_LONGEST = 1 << 20
_SLOW = {"bench", "demo"}
"""Commands that are not run in forks, and load the most."""


class Forks:
    """The program that forks, as the tests see it. It is started when it is first needed."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._way = socket.socket()

    def run(
        self, arguments: list[str], directory: Path, environment: dict[str, str], stdin: bytes
    ) -> tuple[int, bytes, bytes]:
        """Run a command; returns its status and what it wrote to its two outputs."""
        if self._program is None:
            self._start()
        asked = json.dumps([arguments, str(directory), environment]).encode()
        read, write = os.pipe()
        with (
            os.fdopen(read, "rb") as pipe,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            # As little as tests write fits into a pipe.
            with os.fdopen(write, "wb") as end:
                end.write(stdin)
            handed = array.array("i", [each.fileno() for each in (pipe, out, err)])
            self._way.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
            status = self._way.recv(64)
            out.seek(0)
            err.seek(0)
            return int(status), out.read(), err.read()

    def close(self) -> None:
        """End the program and all its forks."""
        self._way.close()
        if self._program is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait(10)

    def _start(self) -> None:
        self._way.close()
        self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._way.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
            self._way.settimeout(PATIENCE_SECONDS)
            self._program = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )


def serve(way: socket.socket) -> None:
    """Fork for each command, one after the other, until nobody asks any more."""
    commands = importlib.import_module("mainspring.cli.root").COMMANDS
    for name in {entry.module for entry in commands.values()} - _SLOW:
        importlib.import_module(f"mainspring.cli.{name}")
    while True:
        asked, descriptors, _, _ = socket.recv_fds(way, _LONGEST, 3)
        if not asked:
            return
        pid = os.fork()
        if pid == 0:
            arguments, directory, environment = json.loads(asked)
            become(arguments, directory, environment, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        way.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(
    arguments: list[str], directory: str, environment: dict[str, str], descriptors: list[int]
) -> None:
    """Be the command, in its directory and environment and with its inputs and outputs."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    # As `python -m` has it: the modules of an app are found beside the caller.
    sys.path[0] = directory
    importlib.import_module("mainspring.cli").main(arguments)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as served:
        serve(served)
