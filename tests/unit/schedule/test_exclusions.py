from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random

import pytest

from mainspring.domain.cron import wall_clock
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import (
    ExclusionCalendar,
    ExclusionRule,
    ScheduleSpec,
    create,
    next_nominal,
    nominal_times,
    previous_nominal,
)
from unit.schedule.times import DAY, HOUR, MINUTE, cron, utc

CHRISTMAS = frozenset({date(2026, 12, 24), date(2026, 12, 25)})
"""A Thursday and a Friday."""


def calendar(rule: ExclusionRule = ExclusionRule.SKIP, **parts: object) -> ExclusionCalendar:
    return ExclusionCalendar(name="holidays", rule=rule, **parts)  # type: ignore[arg-type]


def days(spec: ScheduleSpec, start: str, end: str) -> list[str]:
    zone = wall_clock(spec.timezone)
    found = nominal_times(spec, utc(start), utc(end))
    return [zone.local(time).strftime("%a %d %H:%M") for time in found]


def test_dates_are_skipped() -> None:
    spec = cron("0 9 * * 1-5", exclusions=(calendar(dates=CHRISTMAS),))
    assert days(spec, "2026-12-23", "2026-12-29") == ["Wed 23 09:00", "Mon 28 09:00"]


def test_times_move_to_the_next_business_day_and_merge() -> None:
    spec = cron("0 9 * * 1-5", exclusions=(calendar(ExclusionRule.NEXT, dates=CHRISTMAS),))
    assert days(spec, "2026-12-23", "2026-12-29") == ["Wed 23 09:00", "Mon 28 09:00"]
    weekly = replace(spec, crons=("0 9 * * THU",))
    assert days(weekly, "2026-12-16", "2027-01-01") == [
        "Thu 17 09:00",
        "Mon 28 09:00",
        "Thu 31 09:00",
    ]


def test_times_move_to_the_previous_business_day() -> None:
    spec = cron("0 9 25 * *", exclusions=(calendar(ExclusionRule.PREVIOUS, dates=CHRISTMAS),))
    assert days(spec, "2026-12-01", "2027-01-31") == ["Wed 23 09:00", "Mon 25 09:00"]


def test_a_weekend_that_no_calendar_excludes_keeps_its_times() -> None:
    spec = cron("0 9 * * *", exclusions=(calendar(ExclusionRule.NEXT, dates=CHRISTMAS),))
    assert days(spec, "2026-12-24", "2026-12-29") == [
        "Sat 26 09:00",
        "Sun 27 09:00",
        "Mon 28 09:00",
    ]


def test_patterns_exclude_minutes_and_days() -> None:
    lunch = calendar(patterns=("* 12-13 * * *", "* * * * SAT,SUN"))
    spec = cron("30 11-14 * * *", exclusions=(lunch,))
    assert days(spec, "2026-12-18", "2026-12-22") == [
        "Fri 18 11:30",
        "Fri 18 14:30",
        "Mon 21 11:30",
        "Mon 21 14:30",
    ]
    minutely = cron("* * * * *", exclusions=(calendar(patterns=("* 0-22 * * *",)),))
    assert next_nominal(minutely, utc("2026-12-18 00:00")) == utc("2026-12-18 23:00")


def test_exclusions_are_read_in_the_zone_of_the_schedule() -> None:
    spec = cron(
        "0 0,12 * * *",
        timezone="America/New_York",
        exclusions=(calendar(dates=frozenset({date(2026, 3, 8)})),),
    )
    assert days(spec, "2026-03-07 06:00", "2026-03-09 05:00") == ["Sat 07 12:00", "Mon 09 00:00"]


def test_intervals_have_exclusions_too() -> None:
    spec = ScheduleSpec(
        every=6 * HOUR,
        anchor=utc("2026-12-23"),
        exclusions=(calendar(dates=CHRISTMAS),),
    )
    assert next_nominal(spec, utc("2026-12-23 18:00")) == utc("2026-12-26 00:00")


def test_a_schedule_whose_every_time_is_excluded_is_refused() -> None:
    spec = cron("0 9 * * *", exclusions=(calendar(patterns=("* 9 * * *",)),))
    with pytest.raises(InvalidValue, match="exclusions leave no time") as caught:
        create("s", spec, utc("2026-01-01"))
    assert caught.value.field == "exclusions"


def test_moving_needs_patterns_of_whole_days() -> None:
    with pytest.raises(InvalidValue, match="cover whole days"):
        calendar(ExclusionRule.NEXT, patterns=("0 9 * * *",))
    assert calendar(ExclusionRule.NEXT, patterns=("* * 25 12 *",)).patterns


def brute_force(
    spec: ScheduleSpec, start: datetime, end: datetime, holidays: ExclusionCalendar
) -> Iterator[datetime]:
    """Every time of the schedule without exclusions, each moved or dropped by itself."""
    zone = wall_clock(spec.timezone)
    for raw in nominal_times(replace(spec, exclusions=()), start - 20 * DAY, end + 20 * DAY):
        local = zone.local(raw)
        if local.date() not in holidays.dates:
            yield raw
            continue
        if holidays.rule is ExclusionRule.SKIP:
            continue
        step = DAY if holidays.rule is ExclusionRule.NEXT else -DAY
        day = local.date()
        while day in holidays.dates or day.isoweekday() > 5:
            day += step
        if abs(day - local.date()) <= 14 * DAY:
            yield zone.instant(datetime.combine(day, local.time()))


@pytest.mark.parametrize("rule", list(ExclusionRule))
@pytest.mark.parametrize("seed", range(3))
def test_moved_times_equal_brute_force(rule: ExclusionRule, seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    first = date(2026, 3, 1)
    for text in ("0 9 * * *", "*/50 8,22 * * *", "15 7 * * 2,4", "30 2 1,15 * *", "0 12 * * 6"):
        density = random.choice([0.1, 0.4, 0.8])
        dates = frozenset(
            first + timedelta(days=n) for n in range(-20, 80) if random.random() < density
        )
        holidays = calendar(rule, dates=dates)
        spec = cron(text, timezone="America/New_York", exclusions=(holidays,))
        start, end = utc("2026-03-02"), utc("2026-04-20")
        expected = sorted(
            {time for time in brute_force(spec, start, end, holidays) if start <= time <= end}
        )
        assert list(nominal_times(spec, start, end)) == expected, (text, sorted(dates))
        for time, before in zip(expected[1:], expected, strict=False):
            assert previous_nominal(spec, time) == before
        for _ in range(10):
            instant = start + random.random() * (end - start)
            later = [time for time in expected if time > instant]
            if later:
                assert next_nominal(spec, instant) == later[0]


def test_bounds_of_a_calendar() -> None:
    many = frozenset(date(2000, 1, 1) + timedelta(days=n) for n in range(5_001))
    with pytest.raises(InvalidValue, match="5001 dates"):
        calendar(dates=many)
    with pytest.raises(InvalidValue, match="weekend"):
        calendar(weekend=frozenset(range(7)))
    with pytest.raises(InvalidValue, match="at most 20"):
        cron("* * * * *", exclusions=(calendar(),) * 21)
    assert next_nominal(cron("* * * * *", exclusions=(calendar(),)), utc("2026-01-01")) == (
        utc("2026-01-01") + MINUTE
    )
