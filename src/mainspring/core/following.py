"""Following a task for as long as somebody listens: the same for every transport."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from mainspring.core.access import Principal
from mainspring.core.gateway import Gateway
from mainspring.core.task_events import BEGINNING, EventId, TaskEvent, events_of
from mainspring.domain.errors import MainspringError, Unavailable
from mainspring.domain.status import TERMINAL
from mainspring.domain.task import Task

KEEP_ALIVE_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 1.0


class Stay:
    """How long somebody may listen. One event wakes the follower, whatever the reason is, so that
    ten thousand silent streams cost ten thousand waits and nothing more.
    """

    __slots__ = ("is_over", "wake")

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.is_over = False

    def end(self) -> None:
        """Let the follower end soon."""
        self.is_over = True
        self.wake.set()


async def follow(
    gateway: Gateway, who: Principal, known: Task, stay: Stay, last: EventId = BEGINNING
) -> AsyncGenerator[TaskEvent | None, None]:
    """Yield what happens to a task after an event, until it ends, is gone, or the stay is over.

    The task as it was just read is told without reading it again: thousands may begin at once.

    None says that there is nothing to tell, so that whoever listens knows that it is still heard.
    """
    first: Task | None = known
    with gateway.changes.watch(known.task_id, stay.wake) as watcher:
        while True:
            is_woken = await _woken(stay.wake, KEEP_ALIVE_SECONDS)
            if stay.is_over:
                return
            if not is_woken:
                yield None
                continue
            stay.wake.clear()
            try:
                task = first or await gateway.task(who, known.task_id)
            except Unavailable:
                yield None
                await _woken(stay.wake, _AGAIN_SECONDS)
                stay.wake.set()
                continue
            except MainspringError:
                return
            first = None
            watcher.saw(task)
            for event in events_of(task, last):
                last = event.id
                yield event
            if task.status in TERMINAL:
                return


async def _woken(wake: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await wake.wait()
    except TimeoutError:
        return False
