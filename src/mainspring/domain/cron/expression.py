"""`CronExpression`: a cron text in a time zone, and the instants at which it fires.

The rules for clock changes:

* Fires are strictly later than the instant asked about, and depend on nothing else.
* A repeated time fires once, at its first occurrence, unless the hour field starts with ``*``:
  then every real occurrence fires.
* The missing times of a gap fire once together, at the instant of the change, unless the hour
  field starts with ``*``: then they do not fire, because they never were.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Self

from mainspring.domain.cron.describe import describe_fields
from mainspring.domain.cron.match import WallMatcher, matcher_for
from mainspring.domain.cron.zone import WallClock, to_instant, to_wall, wall_clock

_ZERO = timedelta()
_SECOND = timedelta(seconds=1)
_FIRST_LOOK_BACK = timedelta(minutes=1)
_LONGEST_LOOK_BACK = timedelta(days=366 * 50)


class GapRule(StrEnum):
    """What a fixed-hour expression does when a clock change skips its time."""

    RUN = "run"
    SKIP = "skip"


class FoldRule(StrEnum):
    """How often a time fires that a clock change repeats.

    ``AUTO`` is once for a fixed hour and each time when the hour field starts with ``*``.
    """

    AUTO = "auto"
    ONCE = "once"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A valid cron expression, read in one time zone. Build it with `parse`."""

    text: str
    timezone: str
    gap: GapRule
    fold: FoldRule
    matcher: WallMatcher = field(repr=False, compare=False)
    clock: WallClock = field(repr=False, compare=False)

    @classmethod
    def parse(
        cls,
        text: str,
        timezone: str = "UTC",
        *,
        gap: GapRule = GapRule.RUN,
        fold: FoldRule = FoldRule.AUTO,
    ) -> Self:
        """Read ``text`` in ``timezone``.

        Raises `InvalidCron` for a text outside the grammar or one that can never fire, and
        `InvalidTimezone` for an unknown zone.
        """
        return cls(text, timezone, gap, fold, matcher_for(text), wall_clock(timezone))

    @property
    def normalized(self) -> str:
        """The canonical text: aliases written out, numbers for names, single spaces."""
        return self.matcher.fields.normalized

    @property
    def follows_elapsed_time(self) -> bool:
        """True when the hour field starts with ``*``, so that clock changes never pause it."""
        return self.matcher.fields.follows_elapsed_time

    def describe(self) -> str:
        """One English sentence, without a full stop, such as "At 09:00, Monday through Friday"."""
        return describe_fields(self.matcher.fields)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first fire strictly later than ``instant``, in UTC; None if none in 50 years.

        ``instant`` must be aware. Only it, the expression and the zone data decide the result.
        """
        if instant.tzinfo is None:
            raise ValueError("The instant has no time zone; pass an aware datetime such as UTC.")
        try:
            instant = instant.astimezone(UTC)
            return self._next(instant.replace(microsecond=0) if instant.microsecond else instant)
        except OverflowError:
            # The calendar ends with the year 9999; nothing fires beyond it.
            return None

    def iterate(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Every fire later than ``after``, up to and including ``until`` when it is given."""
        found = self.next_after(after)
        while found is not None and (until is None or found <= until):
            yield found
            found = self.next_after(found)

    def previous_before(self, instant: datetime) -> datetime | None:
        """The last fire strictly earlier than ``instant``, in UTC; None if none in 50 years."""
        return last_before(self.next_after, instant)

    def _next(self, instant: datetime) -> datetime | None:
        local = self.clock.local(instant)
        wall = to_wall(instant, local.utcoffset() or _ZERO)
        first, second = self.clock.offsets(wall)
        if first > second:
            return self._next_in_overlap(instant, wall, second_pass=bool(local.fold))
        return self._next_first_pass(wall)

    def _next_first_pass(self, wall: datetime) -> datetime | None:
        """The first fire whose wall-clock time is later than ``wall``, at its first occurrence."""
        found = self.matcher.next_wall(wall)
        while found is not None:
            first, second = self.clock.offsets(found)
            if second <= first:
                return to_instant(found, first)
            change = self.clock.change_over(found, first, second)
            if self.gap is GapRule.RUN and not self.follows_elapsed_time:
                return change.at
            found = self.matcher.next_wall(change.wall_after - _SECOND)
        return None

    def _next_in_overlap(
        self, instant: datetime, wall: datetime, *, second_pass: bool
    ) -> datetime | None:
        """The next fire when the wall-clock time at ``instant`` occurs twice."""
        first, second = self.clock.offsets(wall)
        length = first - second
        change = (
            self.clock.change_between(instant - length, instant)
            if second_pass
            else self.clock.change_between(instant, instant + length)
        )
        # In the second pass all repeated times had their first occurrence already.
        found = self._next_first_pass(change.wall_before - _SECOND if second_pass else wall)
        if not self._fires_in_both_passes:
            return found
        repeated = self.matcher.next_wall(wall if second_pass else change.wall_after - _SECOND)
        if repeated is None or repeated >= change.wall_before:
            return found
        again = to_instant(repeated, second)
        return again if found is None else min(found, again)

    @property
    def _fires_in_both_passes(self) -> bool:
        if self.fold is FoldRule.AUTO:
            return self.follows_elapsed_time
        return self.fold is FoldRule.BOTH


def last_before(
    next_after: Callable[[datetime], datetime | None], instant: datetime
) -> datetime | None:
    """The last fire strictly earlier than ``instant`` of any pure, strictly later ``next_after``.

    The question "is the next fire after x earlier than ``instant``" is true up to that last fire
    and false from it on, so the fire is found by halving, with no second set of rules.
    """
    end = instant.astimezone(UTC)
    if end.microsecond:
        end = end.replace(microsecond=0) + _SECOND
    back = _FIRST_LOOK_BACK
    try:
        while (found := next_after(end - back)) is None or found >= end:
            if back > _LONGEST_LOOK_BACK:
                return None
            back *= 2
    except OverflowError:
        return None
    low, high = 0, int(back.total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        candidate = next_after(end - back + middle * _SECOND)
        if candidate is not None and candidate < end:
            low, found = middle, candidate
        else:
            high = middle
    return found


@lru_cache(maxsize=16_384)
def parse_cron(
    text: str,
    timezone: str = "UTC",
    gap: GapRule = GapRule.RUN,
    fold: FoldRule = FoldRule.AUTO,
) -> CronExpression:
    """`CronExpression.parse`, remembered: the way to read the same schedules again and again."""
    return CronExpression.parse(text, timezone, gap=gap, fold=fold)
