"""Turning away less urgent work under overload: low first, then normal, never critical.

A sampler looks at the backlog every few seconds, and no more than a tenth of the time. From it each
level has a state that says whether its new tasks are accepted, and why not.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from mainspring.domain.errors import InvalidValue, MainspringError, Overloaded
from mainspring.domain.priority import Level, level_of
from mainspring.ports.clock import Clock
from mainspring.ports.store import COUNT_MAX, Backlog, TaskReader

SAMPLE_SECONDS: Final = 2.0
SAMPLE_SECONDS_MAX: Final = 20.0
_SHARE: Final = 10.0
"""A sample that took a second is not repeated for ten."""

_EASED: Final = 0.8
"""A level is accepted again once it is this far below its threshold, so that it does not flap."""

_SLOW_SECONDS: Final = 1.0
_SLOW_SECONDS_NORMAL: Final = 2.5
_RETRY_SECONDS: Final = 10.0


class Threshold(msgspec.Struct, frozen=True):
    """When new tasks of a level are turned away: tasks due, or seconds that the oldest is late."""

    depth: int
    age_seconds: float


THRESHOLDS: Final[dict[Level, Threshold]] = {
    Level.BATCH: Threshold(1_000_000, 24 * 3600.0),
    Level.LOW: Threshold(1_000_000, 12 * 3600.0),
    Level.NORMAL: Threshold(2_000_000, 24 * 3600.0),
}
"""The defaults. High is only turned away when a threshold is set for it; critical never is."""

ORDER: Final = (Level.BATCH, Level.LOW, Level.NORMAL, Level.HIGH)
"""Who goes first. A level is never turned away before those that stand before it."""


def parse_thresholds(text: str) -> dict[Level, Threshold]:
    """Read thresholds such as ``low=100000/3600,normal=500000/7200`` (tasks/seconds)."""
    found: dict[Level, Threshold] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, numbers = part.partition("=")
        depth, _, age = numbers.partition("/")
        try:
            level, threshold = Level(name.strip()), Threshold(int(depth), float(age))
        except ValueError:
            message = f"shed_thresholds has {part!r}; write LEVEL=TASKS/SECONDS, such as low=9/60"
            raise InvalidValue(message, field="shed_thresholds") from None
        if level is Level.CRITICAL:
            message = "shed_thresholds names critical, which is never turned away; leave it out"
            raise InvalidValue(message, field="shed_thresholds")
        found[level] = threshold
    return found


class Pressure(msgspec.Struct, frozen=True):
    """One look at the backlog."""

    backlogs: Sequence[Backlog] = ()
    seconds: float = 0.0
    """How long the store took to answer a small question."""

    counting_seconds: float = 0.0

    reachable: bool = True


class Shedder:
    """Decides which levels are accepted now."""

    def __init__(
        self,
        reader: TaskReader,
        clock: Clock,
        thresholds: Mapping[Level, Threshold] = THRESHOLDS,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._thresholds = thresholds
        self._bound = max(COUNT_MAX, *(limit.depth + 1 for limit in thresholds.values()), 0)
        self._refused: dict[Level, str] = {}
        self.pressure = Pressure()
        self.turned_away = dict.fromkeys(ORDER, 0)

    @property
    def refused(self) -> Mapping[Level, str]:
        """The levels whose new tasks are turned away, and why."""
        return self._refused

    def admit(self, priority: int, count: int = 1) -> None:
        """Return if a new task of this priority is accepted, else raise `Overloaded`."""
        if not self._refused:
            return
        level = level_of(priority)
        reason = self._refused.get(level)
        if reason is not None:
            self.turned_away[level] += count
            raise Overloaded(
                f"tasks of level {level} are not accepted now, because {reason}; come back in "
                f"{_RETRY_SECONDS:g} s, or give an urgent task a better priority",
                field="priority",
                retry_after=_RETRY_SECONDS,
            )

    async def run(self) -> None:
        """Look at the backlog until cancelled."""
        while True:
            await self.sample()
            pause = _SHARE * self.pressure.counting_seconds if self.pressure.reachable else 0.0
            await self._clock.sleep(min(max(SAMPLE_SECONDS, pause), SAMPLE_SECONDS_MAX))

    async def sample(self) -> None:
        """Look at the backlog once and decide."""
        began = self._clock.monotonic()
        pressure = Pressure(self.pressure.backlogs, reachable=False)
        with contextlib.suppress(MainspringError):
            seconds = await self._answer_seconds()
            if seconds > _SLOW_SECONDS:
                # An answer that waited for the end of an outage says nothing of what is now.
                seconds = await self._answer_seconds()
            asked = self._clock.monotonic()
            backlogs = await self._reader.backlogs(self._bound)
            pressure = Pressure(backlogs, seconds, self._clock.monotonic() - asked)
        if not pressure.reachable:
            pressure = msgspec.structs.replace(pressure, seconds=self._clock.monotonic() - began)
        self.pressure = pressure
        self._decide()

    async def _answer_seconds(self) -> float:
        began = self._clock.monotonic()
        await self._reader.queue_names()
        return self._clock.monotonic() - began

    def _decide(self) -> None:
        refused: dict[Level, str] = {}
        depths, ages = by_level(self.pressure.backlogs)
        worst: str | None = None
        for level in reversed(ORDER):
            # What is refused for a better level is refused for all that stand before it.
            worst = self._reason(level, depths[level], ages[level]) or worst
            if worst is not None:
                refused[level] = worst
        self._refused = refused

    def _reason(self, level: Level, depth: int, age: float) -> str | None:
        # A store that does not answer at all says so itself, to each level alike.
        slow = self.pressure.seconds if self.pressure.reachable else 0.0
        if level in {Level.LOW, Level.BATCH} and slow > _SLOW_SECONDS:
            return f"the task store took {slow:.1f} s to answer"
        if level is Level.NORMAL and slow > _SLOW_SECONDS_NORMAL:
            return f"the task store took {slow:.1f} s to answer"
        limit = self._thresholds.get(level)
        if limit is None:
            return None
        ease = _EASED if level in self._refused else 1.0
        if depth > limit.depth * ease:
            # How many they are is for whoever sees all of them; tenants read this, too.
            return f"too many of them are due (the most is {limit.depth:,})"
        if age > limit.age_seconds * ease:
            return f"the oldest is too late (the most is {limit.age_seconds:.0f} s)"
        return None


def by_level(backlogs: Sequence[Backlog]) -> tuple[dict[Level, int], dict[Level, float]]:
    """Sum up a backlog: tasks due, and seconds that the oldest waits, of each level."""
    depths = dict.fromkeys(Level, 0)
    ages = dict.fromkeys(Level, 0.0)
    for backlog in backlogs:
        level = level_of(backlog.priority)
        depths[level] += backlog.ready
        ages[level] = max(ages[level], backlog.oldest_seconds)
    return depths, ages
