"""An event loop whose time is a number.

When nothing can run, time jumps to the next timer. So a day of waiting costs nothing, and what
runs in which order depends on the program alone: the same program does the same again.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class StandstillError(RuntimeError):
    """Everybody waits for something that nothing will ever bring."""


class _NoInput(selectors.BaseSelector):
    """Waiting for input is where time passes: there is no input, so it passes at once."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("nothing is left to run and no timer is set")
        self.elapsed += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time` starts at 0 and moves only while everybody waits."""

    def __init__(self) -> None:
        self._virtual = _NoInput()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.elapsed


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, and cancel what it leaves behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
