"""Telling the agent which attempt is on the event loop right now.

A handler that blocks its event loop, or holds the interpreter, cannot be asked who it is. So each
step of a coroutine leaves the number of its attempt in memory that the agent shares: when a runner
no longer answers, the agent reads there which attempt is to blame and which are only waiting.
"""

import mmap
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Final

PAGE_BYTES: Final = 8
NOBODY: Final = 0


class StepPage:
    """One number in shared memory: the attempt that is on the event loop, or `NOBODY`."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self.cell = memoryview(self._map).cast("q")

    def current(self) -> int:
        """Return the number of the attempt whose step is running."""
        return self.cell[0]

    def close(self) -> None:
        """Give the memory back."""
        self.cell.release()
        self._map.close()


@coroutine
def marked(
    handler: Coroutine[Any, Any, Any], cell: "memoryview[int]", number: int
) -> Generator[Any, Any, Any]:
    """Run a coroutine as `await` does, with its number in the cell during each of its steps."""
    value: Any = None
    error: BaseException | None = None
    while True:
        cell[0] = number
        try:
            awaited = handler.send(value) if error is None else handler.throw(error)
        except StopIteration as stop:
            return stop.value
        finally:
            cell[0] = NOBODY
        value, error = None, None
        try:
            value = yield awaited
        except BaseException as raised:  # noqa: BLE001 - everything thrown in is meant for the handler
            error = raised
