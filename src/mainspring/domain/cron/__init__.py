"""Cron expressions in time zones: grammar, matching, clock changes and words."""

from mainspring.domain.cron.expression import (
    CronExpression,
    FoldRule,
    GapRule,
    last_before,
    parse_cron,
)
from mainspring.domain.cron.zone import ClockChange, WallClock, wall_clock, zone_fingerprint
from mainspring.domain.errors import InvalidCron, InvalidTimezone

__all__ = [
    "ClockChange",
    "CronExpression",
    "FoldRule",
    "GapRule",
    "InvalidCron",
    "InvalidTimezone",
    "WallClock",
    "last_before",
    "parse_cron",
    "wall_clock",
    "zone_fingerprint",
]
