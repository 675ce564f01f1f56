"""Wall-clock time in a zone: offsets, missing and repeated times, instants of clock changes.

All arithmetic is on UTC instants and naive wall-clock times; zoneinfo only answers which offset
holds. The length of a gap or an overlap is read from it, never assumed to be one hour.
"""

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from mainspring.domain.errors import InvalidTimezone

TIMEZONE_FIELD = "timezone"
MAX_ZONE_LENGTH = 64

_SECOND = timedelta(seconds=1)
_QUARTER = 900
_ZERO = timedelta()
# Sums with the epoch turn wall-clock times into instants and back; `datetime.replace` says the
# same and takes eight times as long, which the budget of one next time cannot carry.
_EPOCH = datetime.fromtimestamp(0, UTC)
_WALL_EPOCH = _EPOCH.replace(tzinfo=None)
# Two clock changes closer than this cancel out unseen; none of the zone database do.
_PROBE = timedelta(days=7)
# Names of files beside the zones; what they mean differs from host to host.
_NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})


def to_instant(wall: datetime, offset: timedelta) -> datetime:
    """The UTC instant of the naive ``wall``, read with ``offset``."""
    return _EPOCH + (wall - _WALL_EPOCH - offset)


def to_wall(instant: datetime, offset: timedelta) -> datetime:
    """The naive wall-clock time of ``instant``, read with ``offset``."""
    return _WALL_EPOCH + (instant - _EPOCH + offset)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """One change of a zone's offset.

    ``at`` is its instant in UTC. ``before`` and ``after`` are the offsets around it: wall-clock
    times are missing if ``after`` is larger, and repeated if it is smaller.
    """

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def wall_before(self) -> datetime:
        """Wall-clock time at the change as read with the old offset."""
        return to_wall(self.at, self.before)

    @property
    def wall_after(self) -> datetime:
        """Wall-clock time at the change as read with the new offset."""
        return to_wall(self.at, self.after)


@dataclass(frozen=True, slots=True)
class WallClock:
    """The wall clock of one IANA zone."""

    zone: ZoneInfo

    @property
    def name(self) -> str:
        """The IANA name, such as ``Europe/Berlin``."""
        return self.zone.key

    def local(self, instant: datetime) -> datetime:
        """``instant`` as an aware local time."""
        return instant.astimezone(self.zone)

    def offset(self, instant: datetime) -> timedelta:
        """The offset from UTC that holds at ``instant``."""
        return instant.astimezone(self.zone).utcoffset() or _ZERO

    def offsets(self, wall: datetime) -> tuple[timedelta, timedelta]:
        """The offsets of the first and second reading of the naive ``wall``.

        Equal for an ordinary time; the first is larger for a repeated time and smaller for a
        missing one.
        """
        # zoneinfo reads the fields of a naive time, and its fold, which is 0 in all of ours.
        again = datetime(  # noqa: DTZ001 - a wall-clock time has no zone
            wall.year, wall.month, wall.day, wall.hour, wall.minute, wall.second, fold=1
        )
        return self.zone.utcoffset(wall) or _ZERO, self.zone.utcoffset(again) or _ZERO

    def instant(self, wall: datetime) -> datetime:
        """The UTC instant of the naive ``wall``.

        A repeated time gives its first occurrence, a missing one the instant of the clock change.
        """
        first, second = self.offsets(wall)
        if second > first:
            return self.change_over(wall, first, second).at
        return to_instant(wall, first)

    def change_over(self, wall: datetime, first: timedelta, second: timedelta) -> ClockChange:
        """The clock change that skips the missing ``wall``, whose two readings are given."""
        return self.change_between(to_instant(wall, second), to_instant(wall, first))

    def change_between(self, before: datetime, until: datetime) -> ClockChange:
        """The clock change in the half-open span after ``before`` up to ``until``.

        There must be exactly one; the result is exact to the second.
        """
        old, new = self.offset(before), self.offset(until)
        low, high = (int((instant - _EPOCH).total_seconds()) for instant in (before, until))
        # Clocks change on a quarter of an hour, so whole quarters are tried first.
        low, high = self._narrow(low, high, new, _QUARTER)
        if high - low > 1 and self._offset_at(high - 1) == new:
            low, high = self._narrow(low, high, new, 1)
        return ClockChange(_EPOCH + high * _SECOND, old, new)

    def _narrow(self, low: int, high: int, new: timedelta, unit: int) -> tuple[int, int]:
        """Narrow a span of POSIX seconds around a change to neighbouring multiples of ``unit``.

        The offset ``new`` holds at ``high`` and not at ``low``, before and after.
        """
        first, last = low // unit + 1, (high - 1) // unit
        while first <= last:
            middle = (first + last) // 2
            if self._offset_at(middle * unit) == new:
                high, last = middle * unit, middle - 1
            else:
                low, first = middle * unit, middle + 1
        return low, high

    def _offset_at(self, seconds: int) -> timedelta:
        return self.offset(_EPOCH + timedelta(seconds=seconds))

    def changes(self, after: datetime, until: datetime) -> Iterator[ClockChange]:
        """Every clock change after ``after`` up to ``until``, in order."""
        start = after
        while start < until:
            end = min(start + _PROBE, until)
            if self.offset(start) != self.offset(end):
                yield self.change_between(start, end)
            start = end


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


@lru_cache(maxsize=1024)
def _clock_of(name: str) -> WallClock:
    return WallClock(ZoneInfo(name))


def wall_clock(name: object) -> WallClock:
    """The wall clock of the IANA zone ``name``.

    Names are exact: offsets such as ``UTC+3`` and other spellings are refused with
    `InvalidTimezone`, which suggests the nearest names.
    """
    if isinstance(name, str) and len(name) <= MAX_ZONE_LENGTH and name in _zone_names():
        return _clock_of(name)
    raise InvalidTimezone(_zone_refusal(name), field=TIMEZONE_FIELD)


def _zone_refusal(name: object) -> str:
    example = "use an IANA name such as 'Europe/Berlin' or 'UTC'"
    if not isinstance(name, str):
        return f"The time zone is a text, not {type(name).__name__}; {example}."
    if len(name) > MAX_ZONE_LENGTH:
        return f"The time zone has {len(name)} characters and is no IANA name; {example}."
    spellings = {known.lower(): known for known in _zone_names()}
    wanted = name.strip().lower().replace(" ", "_")
    if wanted in spellings:
        return f"The time zone {name!a} is unknown; write {spellings[wanted]!r}."
    near = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.75)
    if near:
        example = "did you mean " + " or ".join(repr(spellings[match]) for match in near) + "?"
        return f"The time zone {name!a} is unknown; {example}"
    return f"The time zone {name!a} is unknown; {example}."


def zone_fingerprint(name: str, after: datetime, until: datetime) -> str:
    """A short hash of the rules of a zone within a span of time.

    It changes exactly when the installed zone data tells another local time within the span, so
    a stored next time that was computed under another fingerprint must be computed again.
    """
    clock = wall_clock(name)
    digest = hashlib.blake2b(digest_size=8)
    digest.update(repr(clock.offset(after)).encode())
    for change in clock.changes(after, until):
        digest.update(f"{change.at.isoformat()}{change.after!r}".encode())
    return digest.hexdigest()
