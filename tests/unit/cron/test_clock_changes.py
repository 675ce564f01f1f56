"""Properties 1 to 4 around every clock change 2000 to 2037 of 41 zones, and the oracle there."""

from datetime import UTC, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from mainspring.domain.cron import CronExpression, FoldRule, GapRule, parse_cron
from unit.cron.oracle import Oracle, local_minutes
from unit.cron.zones import ZONES, clock_changes

EXPRESSIONS = [
    "* * * * *",
    "*/5 * * * *",
    "*/30 1 * * *",
    "30 * * * *",
    "0 */2 * * *",
    "15 */3 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "30 1 * * *",
    "30 2 * * *",
    "0 2,3 * * *",
    "0 1-4 * * *",
    "45 23 * * *",
    "* 2 * * *",
    "0 12 * * 1-5",
]
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def test_both_directions_of_at_least_thirty_zones_are_covered() -> None:
    both = [
        zone
        for zone in ZONES
        if {change.after > change.before for change in clock_changes(zone)} == {True, False}
    ]
    assert len(both) >= 30
    total = sum(len(clock_changes(zone)) for zone in ZONES)
    print(f"{total} clock changes in {len(ZONES)} zones")
    assert total > 1_500


@pytest.mark.parametrize("zone", ZONES)
def test_strictly_later_and_stateless(zone: str) -> None:
    """Properties 1 and 2, and the look back, at random instants within two days of each change."""
    print(f"seed {zone}")
    random = Random(zone)
    for change in clock_changes(zone):
        for text in random.sample(EXPRESSIONS, 3):
            cron = parse_cron(text, zone)
            instant = change.at + timedelta(seconds=random.randint(-172_800, 172_800))
            fire = cron.next_after(instant)
            assert fire is not None
            assert fire > instant
            assert fire.utcoffset() == timedelta()
            assert cron.next_after(fire - SECOND) == fire
            between = instant + random.random() * (fire - instant - SECOND)
            assert cron.next_after(between) == fire
            if random.random() < 0.2:
                back = cron.previous_before(fire)
                assert back is not None
                assert back <= instant
                assert cron.next_after(back) == fire


@pytest.mark.parametrize("zone", ZONES)
def test_equals_the_oracle_minute_by_minute(zone: str) -> None:
    print(f"seed oracle {zone}")
    random = Random(f"oracle {zone}")
    changes = clock_changes(zone)
    for change in random.sample(changes, min(6, len(changes))):
        start, end = change.at - DAY / 3, change.at + DAY
        minutes = local_minutes(ZoneInfo(zone), start, end)
        for text in random.sample(EXPRESSIONS, 4):
            expected = Oracle(text).fires(minutes, start)
            found = list(parse_cron(text, zone).iterate(start - SECOND, end))
            assert found == expected, (text, change)


@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_job_runs_once_on_each_date_that_exists(zone: str) -> None:
    """Property 3. Where a gap reaches midnight (Nuuk) or skips a whole date (Samoa in 2011), the
    run of the lost time is at the change, which is on the next date.
    """
    for text in ("0 0 * * *", "15 1 * * *", "30 2 * * *", "45 23 * * *"):
        cron = parse_cron(text, zone)
        minute, hour = (int(part) for part in text.split()[:2])
        for change in clock_changes(zone):
            first = cron.clock.local(change.at - DAY).date()
            dates = [first + offset * DAY for offset in range(3)]
            due = {cron.clock.instant(datetime.combine(day, time(hour, minute))) for day in dates}
            start = cron.clock.instant(datetime.combine(first, time()))
            end = cron.clock.instant(datetime.combine(first + 3 * DAY, time()))
            fires = list(cron.iterate(start - SECOND, end - SECOND))
            assert fires == sorted(due), (text, change)
            if change.wall_before.date() == change.wall_after.date():
                assert [cron.clock.local(fire).date() for fire in fires] == dates, (text, change)


@pytest.mark.parametrize("zone", ZONES)
def test_every_minute_is_every_sixty_seconds(zone: str) -> None:
    """Property 4."""
    cron = parse_cron("* * * * *", zone)
    for change in clock_changes(zone):
        for start in (change.at - timedelta(minutes=5), change.at + timedelta(minutes=55)):
            fires = list(cron.iterate(start, start + timedelta(minutes=12)))
            assert fires == [start + timedelta(minutes=n) for n in range(1, 13)]
        half = abs(change.after - change.before) / 2
        around = change.at + random_minutes(half)
        assert cron.next_after(around) == around + timedelta(minutes=1)


def random_minutes(span: timedelta) -> timedelta:
    return timedelta(minutes=span // timedelta(minutes=1))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_missing_day_of_samoa_runs_once_at_the_change() -> None:
    cron = CronExpression.parse("0 12 * * *", "Pacific/Apia")
    fires = list(cron.iterate(utc("2011-12-29T00:00"), utc("2011-12-31T00:00")))
    # 29 December 12:00, the lost 30 December at the change, 31 December 12:00.
    assert fires == [utc("2011-12-29T22:00"), utc("2011-12-30T10:00"), utc("2011-12-30T22:00")]


def test_all_missing_times_of_a_gap_run_once() -> None:
    cron = CronExpression.parse("*/10 2 * * *", "America/New_York")
    fires = list(cron.iterate(utc("2026-03-08T00:00"), utc("2026-03-08T12:00")))
    assert fires == [utc("2026-03-08T07:00")]


def test_a_change_that_matches_itself_is_one_run() -> None:
    cron = CronExpression.parse("0 2,3 * * *", "America/New_York")
    fires = list(cron.iterate(utc("2026-03-08T00:00"), utc("2026-03-08T12:00")))
    assert fires == [utc("2026-03-08T07:00")]


def test_a_scheduler_that_starts_in_the_second_pass_does_not_repeat_the_first() -> None:
    cron = CronExpression.parse("30 1 * * *", "America/New_York")
    assert cron.next_after(utc("2026-11-01T06:10")) == utc("2026-11-02T06:30")


@pytest.mark.parametrize(
    ("text", "fold", "expected"),
    [
        ("30 1 * * *", FoldRule.AUTO, ["05:30"]),
        ("30 1 * * *", FoldRule.ONCE, ["05:30"]),
        ("30 1 * * *", FoldRule.BOTH, ["05:30", "06:30"]),
        ("30 */1 * * *", FoldRule.AUTO, ["04:30", "05:30", "06:30", "07:30"]),
        ("30 */1 * * *", FoldRule.ONCE, ["04:30", "05:30", "07:30"]),
        ("30 */1 * * *", FoldRule.BOTH, ["04:30", "05:30", "06:30", "07:30"]),
        ("*/30 1 * * *", FoldRule.AUTO, ["05:00", "05:30"]),
    ],
)
def test_fold_rule(text: str, fold: FoldRule, expected: list[str]) -> None:
    cron = CronExpression.parse(text, "America/New_York", fold=fold)
    fires = cron.iterate(utc("2026-11-01T04:00"), utc("2026-11-01T08:00"))
    assert [f"{fire:%H:%M}" for fire in fires] == expected


@pytest.mark.parametrize(
    ("text", "gap", "expected"),
    [
        ("30 2 * * *", GapRule.RUN, ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ("30 2 * * *", GapRule.SKIP, ["2026-03-09T06:30", "2026-03-10T06:30"]),
        ("30 */2 * * *", GapRule.RUN, ["2026-03-08T08:30", "2026-03-08T10:30"]),
    ],
)
def test_gap_rule(text: str, gap: GapRule, expected: list[str]) -> None:
    cron = CronExpression.parse(text, "America/New_York", gap=gap)
    first = cron.next_after(utc("2026-03-08T06:45"))
    assert first is not None
    assert [first, cron.next_after(first)] == [utc(text) for text in expected]


def test_nothing_fires_beyond_the_calendar() -> None:
    cron = CronExpression.parse("* * * * *", "America/New_York")
    assert cron.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert cron.previous_before(datetime.min.replace(tzinfo=UTC)) is None
    yearly = CronExpression.parse("0 0 1 1 *")
    assert yearly.next_after(utc("9998-06-01T00:00")) is None


def test_a_naive_instant_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        CronExpression.parse("* * * * *").next_after(datetime.fromisoformat("2026-01-01"))


def test_instants_between_seconds_and_in_other_zones() -> None:
    cron = CronExpression.parse("0 0 * * *")
    just_before = datetime(2026, 1, 1, 0, 59, 59, 999_999, ZoneInfo("Europe/Berlin"))
    assert cron.next_after(just_before) == utc("2026-01-01T00:00")
    just_after = datetime(2026, 1, 1, 1, 0, 0, 1, ZoneInfo("Europe/Berlin"))
    assert cron.next_after(just_after) == utc("2026-01-02T00:00")
    assert cron.previous_before(just_after) == utc("2026-01-01T00:00")
    assert cron.previous_before(utc("2026-01-01T00:00")) == utc("2025-12-31T00:00")
