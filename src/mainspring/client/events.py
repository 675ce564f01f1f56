"""Watching a task until it ends: where somebody is in its events, and what to do next.

No input or output happens here. The events come as a stream that can be taken up again after any
of them. Where no stream gets through, as behind a proxy that holds answers back, the task is
looked at now and then instead.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from mainspring.client.exchange import Request, in_path
from mainspring.domain.errors import WaitTimedOut
from mainspring.domain.status import TERMINAL
from mainspring.ports.clock import Clock

SILENCE_SECONDS: Final = 20.0
"""The API says that it is still there every 15 s; a stream without a word for so long is dead."""

_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
_TERMINAL: Final = frozenset(status.value for status in TERMINAL)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a task."""

    id: str
    """Where it is among the events of its task; give it to `events` to go on after it."""

    name: str
    """pending, running, attempt_failed, retrying, or the status that the task ended with."""

    data: dict[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the task has ended."""
        return self.name in _TERMINAL


class Watch:
    """One wait for the end of a task."""

    def __init__(
        self, task_id: UUID | str, clock: Clock, timeout: float | None, after: str = ""
    ) -> None:
        self._task_id = task_id
        self._clock = clock
        self._timeout = timeout
        self._end = None if timeout is None else clock.monotonic() + timeout
        self._last = after
        self._is_open = False
        self._heard = False
        self._lines: dict[str, str] = {}
        self._pause = _PAUSE_SECONDS
        self.streams = True
        """Whether streams get through, as far as is known."""

        self.is_complete = False
        """Whether the last stream ended because there was no more to tell."""

    def request(self) -> Request[dict[str, Any]]:
        """Return the request for the events that come now."""
        self._is_open = self._heard = self.is_complete = False
        self._lines = {}
        return Request(
            method="GET",
            path=f"/v1/tasks/{in_path(self._task_id)}/events",
            kind=dict,
            headers=(("Last-Event-ID", self._last),) if self._last else (),
            is_repeatable=True,
        )

    def opened(self) -> None:
        """Note that the API accepted the request for a stream."""
        self._is_open = True

    def silence_seconds(self) -> float:
        """Return for how long to listen without hearing a word."""
        left = SILENCE_SECONDS if self._end is None else self._end - self._clock.monotonic()
        return max(0.01, min(SILENCE_SECONDS, left))

    def hear(self, line: str) -> Event | None:
        """Take in a line of the stream; returns the event that it completes."""
        self._heard = True
        if line:
            name, _, value = line.partition(":")
            self._lines[name] = value.removeprefix(" ")
            return None
        lines, self._lines = self._lines, {}
        if "data" not in lines or "id" not in lines:
            return None
        self._last = lines["id"]
        self._pause = _PAUSE_SECONDS
        data: dict[str, Any] = msgspec.json.decode(lines["data"], type=dict)
        return Event(id=self._last, name=lines.get("event", ""), data=data)

    def stream_ended(self) -> None:
        """Note that a stream is over, however it ended."""
        if self._is_open and not self._heard:
            self.streams = False

    def is_over(self) -> bool:
        """Whether the time for the wait is up."""
        return self._end is not None and self._clock.monotonic() >= self._end

    def check(self, task: Mapping[str, Any]) -> bool:
        """Return whether the task has ended; raises `WaitTimedOut` if it has not in time."""
        if task["status"] in _TERMINAL:
            return True
        if self.is_over():
            raise WaitTimedOut(
                f"task {self._task_id} did not end within {self._timeout:g} s; it is still there, "
                "so wait longer, or look what it does"
            )
        return False

    def pause(self) -> float:
        """Return for how long to pause before listening, or looking, again."""
        seconds, self._pause = self._pause, min(2 * self._pause, _PAUSE_SECONDS_MAX)
        return seconds if self._end is None else min(seconds, self.seconds_left())

    def seconds_left(self) -> float:
        """Return how much of the time is left."""
        return 0.0 if self._end is None else max(0.0, self._end - self._clock.monotonic())
