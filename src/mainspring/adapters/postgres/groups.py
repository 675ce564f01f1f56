"""Admitting tasks of groups and of queues with limits."""

import asyncio
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from mainspring.adapters.postgres.ages import ages_of
from mainspring.adapters.postgres.part import StorePart
from mainspring.adapters.postgres.queries import QUERIES
from mainspring.domain.priority import HIGHEST, LOWEST
from mainspring.ports.store import ClaimRequest

_ADMIT: Final = QUERIES["admit"]
_FREED_MAX: Final = 1000
"""Groups in which something ended; others are looked at a moment later all the same."""

_BUSY_SECONDS: Final = 0.01
_BUSY_SECONDS_MAX: Final = 0.16
"""How long until a gate at which somebody else was at work is worth another look: longer each time
in a row, so that many who have nothing to do there do not keep each other busy."""

_EVERYTHING: Final = (
    list(range(HIGHEST, LOWEST + 1)),
    [0.0] * (LOWEST + 1 - HIGHEST),
    [None] * (LOWEST + 1 - HIGHEST),
)
"""Priority, youngest and oldest age of what a worker that serves all lanes takes."""

Group = tuple[str, str]
"""A queue and a group key."""


class Admission(NamedTuple):
    """What a look at the gates led to."""

    admitted: int
    since: dict[str, datetime]
    """Of each queue of which something was admitted, since when the first of it is due."""

    rated: list[Group]
    """Groups of which something was admitted that takes a token."""

    wait: float | None
    """Seconds until the next look is worth it, if that is known."""


class Admitting(StorePart):
    """Lets held tasks wait to be claimed, and remembers what may make room for more."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._freed: dict[Group, None] = {}
        self._gate_at: float | None = None
        """When a gate is worth looking at, as far as the last claim saw; None: nothing is held."""

        self._busy_seconds = _BUSY_SECONDS

    def free(self, groups: Iterable[Group]) -> None:
        """Remember that something of these groups ended."""
        self._freed.update(dict.fromkeys(groups))
        if len(self._freed) > _FREED_MAX:
            self._freed.clear()

    def learn_gates(self, due: float | None) -> None:
        """Remember when what a claim found at the gates is worth a look. Where nothing is held, no
        room is waited for.
        """
        if due is None:
            self._gate_at = None
            self._freed.clear()
        else:
            self._gate_at = self._instant() + due

    @property
    def is_gated(self) -> bool:
        """Whether a gate is worth looking at, as far as is known."""
        return self._gate_at is not None and self._instant() >= self._gate_at

    @property
    def is_worth_a_look(self) -> bool:
        """Whether a look at the gates may lead to something: now, or as room was made."""
        return self.is_gated or (self._gate_at is not None and bool(self._freed))

    @property
    def gate_seconds(self) -> float | None:
        """Seconds until a gate is worth looking at, as far as the last claim saw."""
        if self._gate_at is None or self.is_gated:
            return None
        return self._gate_at - self._instant()

    def expect_room(self) -> None:
        """Let the next claim look at the gates: limits were changed."""
        self._gate_at = -math.inf

    async def admit(self, request: ClaimRequest) -> Admission:
        """Look at the gates of the queues that a request is about."""
        freed = list(self._freed)
        self._freed.clear()
        rows = await self._main.fetch(
            _ADMIT,
            self._now(),
            request.limit,
            request.task_types,
            request.queues,
            request.labels,
            *self._bands(request),
            [queue for queue, _ in freed],
            [group_key for _, group_key in freed],
        )
        busy = {row["queue"] for row in rows if row["admitted"] is None}
        self.free(group for group in freed if group[0] in busy)
        done = [row for row in rows if row["admitted"] is not None]
        waits = [row["wait"] for row in done if row["wait"] is not None and row["wait"] > 0]
        if busy:
            waits.append(self._busy_seconds)
        self._busy_seconds = (
            min(2 * self._busy_seconds, _BUSY_SECONDS_MAX) if busy else _BUSY_SECONDS
        )
        return Admission(
            sum(row["admitted"] for row in done),
            {row["queue"]: row["since"] for row in done if row["admitted"]},
            [(row["queue"], key) for row in done for key in row["rated"] or ()],
            min(waits, default=None),
        )

    async def refill(self, groups: list[Group]) -> None:
        """Let the buckets of groups fill from now on, since what was admitted of them has started.
        Without it they fill later, as nobody knows when that was.
        """
        await self._main.fetch(
            _ADMIT,
            self._now(),
            0,
            (),
            None,
            (),
            (),
            (),
            (),
            [queue for queue, _ in groups],
            [group_key for _, group_key in groups],
        )

    def _instant(self) -> float:
        now = self._now()
        return asyncio.get_running_loop().time() if now is None else now.timestamp()

    def _bands(self, request: ClaimRequest) -> tuple[Any, Any, Any]:
        if request.lanes is None:
            return _EVERYTHING
        ages = ages_of(request.lanes, self._limit_seconds)
        return ages.priorities, ages.youngest, ages.oldest
