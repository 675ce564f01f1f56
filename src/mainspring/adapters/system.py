"""Time, chance and identity of the real machine. Nothing else in the package reads them."""

import asyncio
import os
import random
import secrets
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from mainspring.domain.ids import make_id, random_bits_needed

_TAIL_BITS: Final = 16
"""The end of an id is its partition, which a key may decide; it takes no part in the order."""

_COUNTER_BITS: Final = random_bits_needed() - _TAIL_BITS
"""Starts at random below half of its range, so that a millisecond has room to count up in."""

_START_MASK: Final = (1 << _COUNTER_BITS - 1) - 1
_TAIL_MASK: Final = (1 << _TAIL_BITS) - 1
_STEP_MASK: Final = (1 << 20) - 1
_WORDS: Final = struct.Struct("=512Q")
"""Random bits come in words of 64, which is enough for each of the above."""

_NAME_LENGTH: Final = 60


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back within the process."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)


class SystemChance:
    """Random numbers that nobody can foresee or repeat."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()


class SystemIds:
    """Ids that sort by the time they were made, also within one millisecond of one process.

    Safe to use from several threads, and different in a forked child.
    """

    def __init__(self) -> None:
        self._start()
        if hasattr(os, "register_at_fork"):
            start = weakref.WeakMethod(self._start)
            os.register_at_fork(after_in_child=lambda: (call := start()) and call())

    def _start(self) -> None:
        # Also in a forked child: the lock may be held there by a thread that it does not have,
        # and what is left of the random bytes belongs to the parent.
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._counter = 0
        self._words: Iterator[int] = iter(())

    def task_id(self, key: str | None = None) -> UUID:
        """Return a new task id, larger than any made here before."""
        with self._lock:
            milliseconds = time.time_ns() // 1_000_000
            drawn = next(self._words, None)
            if drawn is None:
                drawn = self._draw()
            if milliseconds > self._milliseconds:
                self._milliseconds = milliseconds
                self._counter = self._draw() & _START_MASK
            else:
                self._counter += 1 + (drawn >> _TAIL_BITS & _STEP_MASK)
                if self._counter >> _COUNTER_BITS:
                    self._milliseconds += 1
                    self._counter = self._draw() & _START_MASK
            bits = self._counter << _TAIL_BITS | drawn & _TAIL_MASK
            return make_id(self._milliseconds, bits, key)

    def _draw(self) -> int:
        """Return a random word. The system is asked for many at once, as each question costs."""
        word = next(self._words, None)
        if word is not None:
            return word
        self._words = iter(_WORDS.unpack(os.urandom(_WORDS.size)))
        return next(self._words)

    def worker_id(self) -> str:
        """Return a name for this process start: host, process id and a random part."""
        host = "".join(c if c.isascii() and c.isalnum() else "-" for c in socket.gethostname())
        name = host.strip("-")[:_NAME_LENGTH] or "host"
        return f"{name}:{os.getpid()}:{secrets.token_hex(4)}"
