"""Stopping on a signal: the first one drains, the second one ends at once.

Whoever is still starting has nothing to drain and ends at the first one, also while it waits for
something else that does not come.
"""

import asyncio
import signal
from types import TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """What the signals of this process have asked for, in a block that listens to them.

    A signal before `has_started` ends the block. That the terminal was closed is a signal as well,
    unless the process was told to ignore that, as by `nohup`.
    """

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        """Take no more work and finish what is running."""

        self.now = asyncio.Event()
        """Leave everything; the tasks go back when their leases expire."""

        self._starting: asyncio.Task[Any] | None = None
        self._heard = [*SIGNALS]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._heard.append(signal.SIGHUP)

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        for sign in self._heard:
            loop.add_signal_handler(sign, self.ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        for sign in self._heard:
            asyncio.get_running_loop().remove_signal_handler(sign)
        if self._starting is None or not self.drain.is_set():
            return False
        self._starting.uncancel()
        return isinstance(error, asyncio.CancelledError)

    def ask(self) -> None:
        """Take one signal."""
        if self.drain.is_set():
            self.now.set()
        elif self._starting is not None:
            self._starting.cancel()
        self.drain.set()

    def has_started(self) -> None:
        """Say that from now on there is something to drain."""
        self._starting = None
