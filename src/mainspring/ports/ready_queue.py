"""The ready queue beside the task store: which tasks are due soon, as ids in an order.

The store is the only truth. A ready queue may lose everything at any time, may name tasks that are
finished, and may name one task twice: whoever takes an id still has to lease the task in the store,
which refuses what is not waiting there or not due. So an error of the queue costs time and never a
task, and nobody lets a submission fail or wait for it.

A ready queue has slices, by the end of the ids; the scheduler that owns the partition of the same
number feeds a slice. Every method raises `ReadyQueueUnavailable` after a bounded time, having done
all of its work or some of it; all may be repeated.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from mainspring.domain.errors import Unavailable
from mainspring.domain.priority import LIMIT_SECONDS, Level


class ReadyQueueUnavailable(Unavailable):
    """The ready queue cannot be used now. No user meets this: the store alone is enough."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A waiting task as the ready queue knows it."""

    id: UUID
    queue: str
    """As it is stored: with its namespace."""

    priority: int
    task_type: str
    scheduled_at: datetime


class TakeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker can take now; the fields are those of `ports.store.ClaimRequest`."""

    token: str
    """A name for this request alone: repeated with it, a request has the same answer again."""

    now: datetime
    """The time of the store, rather too early than too late."""

    limit: int
    task_types: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    lanes: tuple[Level, ...] | None = None
    served: Mapping[Level, int] = {}
    limit_seconds: float = LIMIT_SECONDS


class Taken(msgspec.Struct, frozen=True):
    """What was taken, in the order of turns, and with the lane that each is served in."""

    found: list[tuple[UUID, Level]]
    next_due_seconds: float | None = None
    """Seconds until the next entry that the worker could take is due, if less was found than
    wanted and one is known."""

    is_complete: bool = False
    """Whether everything that the worker could take was looked at. False: the store may have more
    that is due."""


class Feeding(msgspec.Struct, frozen=True, kw_only=True):
    """A round of feeding one slice."""

    slice: int
    epoch: int
    """Of the partition's owner. Nothing is changed for one that is lower than that under which the
    slice was fed within the last half minute. It decides nothing else: who owns the partition is
    for the task store to say."""

    until: datetime
    """Entries that are due later than this are not kept."""

    paused: frozenset[str]
    """The queues that nothing is taken from."""


class Round(Protocol):
    """A round of feeding that has begun: it knows what the slice held at that moment."""

    async def fill(
        self, entries: Sequence[Entry], limits: Mapping[tuple[str, int], datetime]
    ) -> int | None:
        """Let the slice hold what waits in the store: `entries` were read after the round began,
        so what was held then and is not among them is dropped. `limits` names queues and
        priorities of which there are more, and the last time that was read; what is later is left
        out. Returns how many entries were missing, or None if another owner feeds it by now.
        """
        ...


class ReadyFigures(msgspec.Struct, frozen=True):
    """What a ready queue holds."""

    entries: int
    taken: int
    """Requests that took something and were not confirmed yet."""

    fed: int
    """Slices that are fed, of all."""

    slices: int


class ReadyQueue(Protocol):
    """What is due soon."""

    @property
    def slices(self) -> int:
        """Into how many parts it is divided."""
        ...

    async def put(self, entries: Sequence[Entry]) -> None:
        """Add tasks that wait in the store, or correct the time of those that are there.

        What is due late, or lies beyond what its queue and priority can hold, is left out: feeding
        brings it in time.
        """
        ...

    async def take(self, request: TakeRequest) -> Taken:
        """Take what is due: the lanes in proportion to their weights, within a lane by rank, as
        `TaskStore.claim` does. What is not confirmed within seconds comes back.
        """
        ...

    async def confirm(self, tokens: Sequence[str]) -> None:
        """Say that what was taken under these tokens has been dealt with."""
        ...

    async def remove(self, entries: Sequence[Entry]) -> None:
        """Drop tasks that do not wait any more."""
        ...

    async def pause(self, queue: str, *, is_paused: bool) -> None:
        """Let nothing of a queue be taken, or let it be taken again."""
        ...

    async def begin(self, feeding: Feeding) -> Round | None:
        """Begin to feed a slice; None: another owner feeds it by now. What was taken long ago and
        never confirmed comes back first.
        """
        ...

    async def figures(self) -> ReadyFigures:
        """Count what is held."""
        ...

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...


class Window(msgspec.Struct, frozen=True):
    """What waits in the store and is due until a certain time."""

    entries: list[Entry]
    limits: dict[tuple[str, int], datetime]
    """Queues and priorities of which there is more, and the last time that was read."""


class WindowState(msgspec.Struct, frozen=True):
    """The time of the store and its paused queues."""

    now: datetime
    paused: frozenset[str]


class ReadySource(Protocol):
    """The part of the task store that a ready queue is fed from."""

    async def window_state(self) -> WindowState:
        """Return what a round of feeding starts from."""
        ...

    async def window(self, until: datetime, bound: int) -> Window:
        """Return what waits until then: of each queue and priority the first, up to a bound. Tasks
        that need labels of their worker are left out.
        """
        ...

    def announce(self) -> None:
        """Tell waiting workers that tasks are due."""
        ...
