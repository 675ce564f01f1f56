"""What a runner leaves in memory that the agent shares, for when it can no longer be asked.

A handler that blocks its event loop, or holds the interpreter, cannot say who it is. So each step
of a coroutine leaves the number of its attempt: when a runner does not answer, the agent reads
which attempt is to blame and which are only waiting. And when a runner dies, attempts that it had
not begun are none of those that may have killed it. Attempts of one kind begin in the order of
their numbers, so the last number tells.
"""

import mmap
import os
import sys
import tempfile
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import IO, Any, Final

NOBODY: Final = 0

_CURRENT: Final = 0
_TASK_BEGAN: Final = 1
_THREAD_BEGAN: Final = 2
_CELLS: Final = 3
PAGE_BYTES: Final = 8 * _CELLS


def page_file() -> IO[bytes]:
    """Return the file of a new page, whose descriptor is for both sides. Raises `OSError`.

    In memory where the system has such files. Elsewhere it is written in full: a page that is not
    on the disk yet ends whoever looks at it, by a signal, once the disk has no room for it.
    """
    if sys.platform == "linux":
        file: IO[bytes] = os.fdopen(os.memfd_create("mainspring"), "wb")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is for who asked
    file.write(bytes(PAGE_BYTES))
    file.flush()
    return file


class StepPage:
    """Three numbers in shared memory. One side writes, the other reads."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self.cells: memoryview[int] = memoryview(self._map).cast("q")

    def current(self) -> int:
        """Return the number of the attempt whose step is on the event loop, or `NOBODY`."""
        return self.cells[_CURRENT]

    def task_began(self, number: int) -> None:
        """Note that an attempt on the event loop begins."""
        self.cells[_TASK_BEGAN] = number

    def thread_began(self, number: int) -> None:
        """Note that an attempt in a thread begins."""
        self.cells[_THREAD_BEGAN] = max(number, self.cells[_THREAD_BEGAN])

    def has_task_begun(self, number: int) -> bool:
        """Whether an attempt on the event loop may have begun."""
        return number <= self.cells[_TASK_BEGAN]

    def has_thread_begun(self, number: int) -> bool:
        """Whether an attempt in a thread may have begun."""
        return number <= self.cells[_THREAD_BEGAN]

    def close(self) -> None:
        """Give the memory back."""
        self.cells.release()
        self._map.close()


@coroutine
def marked(
    handler: Coroutine[Any, Any, Any], cells: "memoryview[int]", number: int
) -> Generator[Any, Any, Any]:
    """Run a coroutine as `await` does, with its number in memory during each of its steps."""
    value: Any = None
    error: BaseException | None = None
    while True:
        cells[_CURRENT] = number
        try:
            awaited = handler.send(value) if error is None else handler.throw(error)
        except StopIteration as stop:
            return stop.value
        finally:
            cells[_CURRENT] = NOBODY
        value, error = None, None
        try:
            value = yield awaited
        except BaseException as raised:  # noqa: BLE001 - everything thrown in is meant for the handler
            error = raised
