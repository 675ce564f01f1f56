"""Wall-clock time in a zone: offsets, missing and repeated times, and the instants of clock changes.

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
_ZERO = timedelta()
# Two clock changes closer than this cancel out unseen; none of the zone database do.
_PROBE = timedelta(days=7)
# Names of files beside the zones; what they mean differs from host to host.
_NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})


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
        return self.at.replace(tzinfo=None) + self.before

    @property
    def wall_after(self) -> datetime:
        """Wall-clock time at the change as read with the new offset."""
        return self.at.replace(tzinfo=None) + self.after


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
        aware = wall.replace(tzinfo=self.zone, fold=0)
        return aware.utcoffset() or _ZERO, aware.replace(fold=1).utcoffset() or _ZERO

    def instant(self, wall: datetime) -> datetime:
        """The UTC instant of the naive ``wall``.

        A repeated time gives its first occurrence, a missing one the instant of the clock change.
        """
        first, second = self.offsets(wall)
        if second > first:
            return self.change_over(wall, first, second).at
        return (wall - first).replace(tzinfo=UTC)

    def change_over(self, wall: datetime, first: timedelta, second: timedelta) -> ClockChange:
        """The clock change that skips the missing ``wall``, whose two readings are given."""
        return self.change_between(
            (wall - second).replace(tzinfo=UTC), (wall - first).replace(tzinfo=UTC)
        )

    def change_between(self, before: datetime, until: datetime) -> ClockChange:
        """The clock change in the half-open span after ``before`` up to ``until``.

        There must be exactly one; the result is exact to the second.
        """
        old, new = self.offset(before), self.offset(until)
        low, high = 0, int((until - before).total_seconds())
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(before + middle * _SECOND) == new:
                high = middle
            else:
                low = middle
        return ClockChange(before + high * _SECOND, old, new)

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


def wall_clock(name: str) -> WallClock:
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
        return f"The time zone {ascii(name)} is unknown; write {spellings[wanted]!r}."
    near = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.75)
    if near:
        example = "did you mean " + " or ".join(repr(spellings[match]) for match in near) + "?"
        return f"The time zone {ascii(name)} is unknown; {example}"
    return f"The time zone {ascii(name)} is unknown; {example}."


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
