"""Stopping on a signal: the first one drains, the second one ends at once.

Whoever is still starting has nothing to drain and ends at the first one, also while it waits for
something else that does not come.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last one says that the terminal was closed."""


class Stopping:
    """What the signals of this process have asked for."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        """Take no more work and finish what is running."""

        self.now = asyncio.Event()
        """Leave everything; the tasks go back when their leases expire."""

        self._starting: asyncio.Task[Any] | None = None

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

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Listen to the signals for the time of the block, which a signal before `has_started`
        ends. What the process was told to ignore, as by `nohup`, it ignores.
        """
        loop = asyncio.get_running_loop()
        heard = [sign for sign in SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN]
        self._starting = asyncio.current_task()
        for sign in heard:
            loop.add_signal_handler(sign, self.ask)
        try:
            yield
        except asyncio.CancelledError:
            if self._starting is None or not self.drain.is_set():
                raise
            self._starting.uncancel()
        finally:
            for sign in heard:
                loop.remove_signal_handler(sign)
