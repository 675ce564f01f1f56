"""Threads for plain `def` handlers, which can be told to stop."""

import asyncio
import ctypes
import queue
import threading
from collections.abc import Callable

from mainspring.worker.execution import Ended, Execution


class ThreadJob:
    """One attempt on its way through a thread."""

    __slots__ = ("ending", "execution", "number", "thread_id")

    def __init__(self, number: int, execution: Execution) -> None:
        self.number = number
        self.execution = execution
        self.ending: Ended | None = None
        self.thread_id: int | None = None
        """The thread it runs in, while it does."""


class HandlerThreads:
    """Grows to as many threads as there were jobs at a time; whoever submits sets the limit.

    `began` and `ended` are called in the thread: with the number of a job that begins, one at a
    time, and with a job that has its ending.
    """

    def __init__(self, began: Callable[[int], None], ended: Callable[[ThreadJob], None]) -> None:
        self._began = began
        self._ended = ended
        self._jobs: queue.SimpleQueue[ThreadJob] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0
        self._threads = 0

    def submit(self, job: ThreadJob) -> None:
        """Run a job in a thread of its own."""
        with self._lock:
            self._open += 1
            is_short = self._open > self._threads
            self._threads += is_short
        self._jobs.put(job)
        if is_short:
            threading.Thread(target=self._work, name="mainspring-handler", daemon=True).start()

    def interrupt(self, job: ThreadJob) -> None:
        """Raise `asyncio.CancelledError` in the handler, at its next step in Python.

        A handler that waits in a system call or in C code gets it when it returns from there.
        """
        with self._lock:
            if job.thread_id is not None:
                _raise_in(job.thread_id, asyncio.CancelledError)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            self._attend(job)
            with self._lock:
                self._open -= 1
            self._ended(job)

    def _attend(self, job: ThreadJob) -> None:
        try:
            try:
                with self._lock:
                    self._began(job.number)
                    job.thread_id = threading.get_ident()
                job.ending = job.execution.call()
            finally:
                self._leave(job)
        except asyncio.CancelledError:
            # It came just before the handler began or just after it ended.
            self._leave(job)
        if job.ending is None:
            job.ending = job.execution.interrupted()

    def _leave(self, job: ThreadJob) -> None:
        """From here on the thread cannot be interrupted; what is still pending is taken back."""
        with self._lock:
            job.thread_id = None
            _raise_in(threading.get_ident(), None)


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    exception = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exception)
