"""Stopping on a signal: the first one drains, the second one ends at once."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """What the signals of this process have asked for."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        """Take no more work and finish what is running."""

        self.now = asyncio.Event()
        """Leave everything; the tasks go back when their leases expire."""

    def ask(self) -> None:
        """Take one signal."""
        if self.drain.is_set():
            self.now.set()
        self.drain.set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Listen to SIGINT and SIGTERM for the time of the block."""
        loop = asyncio.get_running_loop()
        for sign in SIGNALS:
            loop.add_signal_handler(sign, self.ask)
        try:
            yield
        finally:
            for sign in SIGNALS:
                loop.remove_signal_handler(sign)
