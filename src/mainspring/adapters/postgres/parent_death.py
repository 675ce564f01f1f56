"""Ending a child process when this process ends, however it ends: no orphan after ``kill -9``."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def follow_parent(sign: signal.Signals) -> Callable[[], None] | None:
    """Return a ``preexec_fn`` with which the kernel sends the child ``sign`` when its parent dies.

    None where that cannot work: outside Linux, and in any thread but the main one, because the
    kernel means by "parent" the thread that forked, and a pool's thread ends long before the
    process does.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    # Loaded before the fork: between fork and exec only the call itself is made.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, int(sign), 0, 0, 0)
        if os.getppid() != parent:
            # The parent died before the kernel was asked to watch it.
            os._exit(1)

    return arm


class DeathWatch:
    """The portable way: a shell that signals the child when this process's end of a pipe closes.

    A process forked from this one without exec holds a copy of that end, and with it the watch.
    """

    def __init__(self, pid: int, sign: signal.Signals, environment: dict[str, str]) -> None:
        read_end, self._held_fd = os.pipe()
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -"$1" "$2"', "sh", sign.name[3:], str(pid)],
            env=environment,
            cwd="/",
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)

    def cancel(self) -> None:
        """End the watch without a signal; the child has ended."""
        self._watcher.kill()
        self._watcher.wait()
        os.close(self._held_fd)
