import time
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.domain.cron import InvalidTimezone, wall_clock, zone_fingerprint
from mainspring.domain.cron.zone import _zone_names
from mainspring.domain.errors import InvalidValue


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Mars/Phobos", "'Europe/Berlin'"),
        ("", "'Europe/Berlin'"),
        ("FOO+5", "'Europe/Berlin'"),
        ("UTC+3", "did you mean 'UTC'?"),
        ("+03:00", "'Europe/Berlin'"),
        ("EST5EDT,M3.2.0", "IANA name"),
        ("../../etc/passwd", "IANA name"),
        ("/etc/localtime", "IANA name"),
        ("UTC\0", "'UTC'"),
        ("Europe", "IANA name"),
        ("Z" * 100_000, "100000 characters"),
        ("localtime", "IANA name"),
        ("posixrules", "IANA name"),
        ("Factory", "IANA name"),
        ("US/Pacific-New", "IANA name"),
        ("europe/berlin", "write 'Europe/Berlin'"),
        ("Europe/Berln", "did you mean 'Europe/Berlin'"),
        ("America/New York", "write 'America/New_York'"),
        (None, "is a text"),
        (5, "is a text"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_unknown_zones_are_refused_with_a_hint(name: object, hint: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidTimezone) as caught:
        wall_clock(name)
    # The first refusal lists the installed zones, which are remembered.
    assert time.process_time() - started < 0.5
    if name != "US/Pacific-New":
        assert hint in caught.value.message
    assert caught.value.field == "timezone"
    assert caught.value.code == "invalid_timezone"
    assert isinstance(caught.value, InvalidValue)
    assert caught.value.message.isprintable()


def test_every_installed_zone_is_read() -> None:
    names = _zone_names()
    assert len(names) > 400
    for name in names:
        assert wall_clock(name).name == name


@pytest.mark.parametrize(
    ("zone", "wall", "instant"),
    [
        ("America/New_York", "2026-03-08T02:30", "2026-03-08T07:00"),
        ("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30"),
        ("America/New_York", "2026-06-01T12:00", "2026-06-01T16:00"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00"),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30"),
    ],
)
def test_a_local_time_has_one_instant(zone: str, wall: str, instant: str) -> None:
    found = wall_clock(zone).instant(datetime.fromisoformat(wall))
    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)


def test_changes_are_exact_to_the_second() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first, second = wall_clock("America/New_York").changes(start, start + timedelta(days=365))
    assert (first.at, second.at) == (
        datetime(2026, 3, 8, 7, tzinfo=UTC),
        datetime(2026, 11, 1, 6, tzinfo=UTC),
    )
    assert (first.wall_before.hour, first.wall_after.hour) == (2, 3)
    assert (second.wall_before.hour, second.wall_after.hour) == (2, 1)


def test_the_fingerprint_follows_the_rules_not_the_name() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)

    def of(name: str) -> str:
        return zone_fingerprint(name, start, end)

    assert of("Europe/Berlin") == of("Europe/Vienna") == of("Europe/Berlin")
    assert of("Europe/Berlin") != of("Europe/London")
    assert of("America/Toronto") == of("America/New_York")
