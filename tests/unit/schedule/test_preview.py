from dataclasses import replace

import pytest

from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import (
    MisfirePolicy,
    MisfireRule,
    ScheduleSpec,
    preview,
)
from unit.schedule.times import HOUR, MINUTE, cron, utc


def test_times_in_the_zone_and_in_utc_across_a_clock_change() -> None:
    found = preview(cron("30 2 * * *", timezone="America/New_York"), utc("2026-03-06 12:00"), 3)
    assert [time.utc for time in found.next] == [
        utc("2026-03-07 07:30"),
        utc("2026-03-08 07:00"),
        utc("2026-03-09 06:30"),
    ]
    assert [time.local.isoformat() for time in found.next] == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]
    assert (found.normalized, found.description) == ("30 2 * * *", "At 02:30")
    assert found.warnings == (
        (
            "The clock change of 2026-03-08 skips 02:30 in America/New_York; '30 2 * * *' fires"
            " once at 03:00 instead."
        ),
    )


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("30 1 * * *", "America/New_York", "repeats 01:30"),
        ("0 0 * * *", "America/Havana", "skips 00:00"),
        ("0 0 13 * FRI", "UTC", "either matches"),
        ("0 0 */2 * MON", "UTC", "both match"),
        ("*/45 * * * *", "UTC", "does not divide the 60"),
        ("0 */7 * * *", "UTC", "does not divide the 24"),
        ("0 0 31 * *", "UTC", "'L' is the last day"),
        ("0 0 30 * *", "UTC", "have no day 30"),
        ("0 0 29 2 *", "UTC", "more than a year away"),
    ],
)
def test_warnings(text: str, zone: str, words: str) -> None:
    found = preview(cron(text, timezone=zone), utc("2026-01-01"))
    assert any(words in warning for warning in found.warnings), found.warnings


@pytest.mark.parametrize(
    "text", ["*/5 * * * *", "0 * * * *", "0 9 * * MON-FRI", "0 12 1 * *", "0 0 31 1 *", "0 0 L * *"]
)
def test_ordinary_schedules_have_no_warning(text: str) -> None:
    assert preview(cron(text, timezone="Europe/Berlin"), utc("2026-01-01")).warnings == ()


def test_warnings_about_policies() -> None:
    spec = cron("0 * * * *", misfire=MisfirePolicy(rule=MisfireRule.RUN_ALL), jitter=2 * HOUR)
    text = " ".join(preview(spec, utc("2026-01-01")).warnings)
    assert "runs all missed times" in text
    assert "jitter" in text


def test_other_kinds_and_the_end() -> None:
    every = preview(ScheduleSpec(every=90 * MINUTE), utc("2026-01-01"), 2)
    assert [time.utc for time in every.next] == [utc("2026-01-01 01:30"), utc("2026-01-01 03:00")]
    assert every.description == "every 5400 seconds"
    once = preview(ScheduleSpec(at=utc("2026-01-02")), utc("2026-01-01"), 5)
    assert [time.utc for time in once.next] == [utc("2026-01-02")]
    ended = preview(replace(cron("@daily"), end_at=utc("2025-01-01")), utc("2026-01-01"))
    assert ended.next == ()
    assert ended.warnings[0] == "The schedule has no time left."


@pytest.mark.parametrize("count", [0, -1, 1_001])
def test_the_number_of_times_is_bounded(count: int) -> None:
    with pytest.raises(InvalidValue, match="1 to 1000"):
        preview(cron("@daily"), utc("2026-01-01"), count)
