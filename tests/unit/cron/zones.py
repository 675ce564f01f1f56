"""Zones whose clocks change, or changed, in every way there is, and their changes 2000 to 2037."""

from datetime import UTC, datetime
from functools import cache

from mainspring.domain.cron import ClockChange, wall_clock

ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Juba",
    "America/Asuncion",
    "America/Caracas",
    "America/Chicago",
    "America/Havana",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "America/Toronto",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Australia/Melbourne",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Moscow",
    "Europe/Zurich",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Fiji",
    "Pacific/Tongatapu",
]


@cache
def clock_changes(zone: str) -> tuple[ClockChange, ...]:
    start, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2037, 12, 31, tzinfo=UTC)
    return tuple(wall_clock(zone).changes(start, end))
