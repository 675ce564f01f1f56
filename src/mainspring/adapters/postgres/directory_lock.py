"""One owner for a data directory."""

import fcntl
import os
import threading
from pathlib import Path

from mainspring.domain.errors import DataDirectoryInUse

_TICK_SECONDS = 0.05
# An orphaned server writes a checkpoint before it ends, which may take a while on a slow disk.
_ENDING_SECONDS = 60


class DirectoryLock:
    """An advisory lock on a data directory, which the server's processes inherit.

    So it tells the truth whatever was killed: it is free when, and only when, nobody is left who
    could write there. A process id in a file could not say that.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The descriptor to pass on to the server. Raises RuntimeError while not held."""
        if self._fd is None:
            raise RuntimeError("the lock is not held")
        return self._fd

    def acquire(self, given_up: threading.Event) -> None:
        """Take the lock, waiting for a server whose owner was killed to finish its shutdown.

        Raises DataDirectoryInUse at once if the owner is alive. Setting ``given_up`` ends the
        wait in the same way.
        """
        fd = os.open(self._data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(int(_ENDING_SECONDS / _TICK_SECONDS)):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _read_pid(fd)
                if _is_alive(owner) or given_up.wait(_TICK_SECONDS):
                    break
            else:
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                self._fd = fd
                return
        owner = _read_pid(fd)
        os.close(fd)
        raise DataDirectoryInUse(
            f"the data directory {self._data_dir} is in use by the process {owner}; "
            "stop it or choose another directory"
        )

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._fd is None:
            return
        # Unlocking, not just closing: a forked process may still hold a copy of the descriptor.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
        self._fd = None


def _read_pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
