import json
from dataclasses import replace
from datetime import date, timedelta

import pytest

from mainspring.domain.errors import InvalidCron, InvalidTimezone, InvalidValue
from mainspring.domain.schedule import (
    ExclusionCalendar,
    ExclusionRule,
    FoldRule,
    GapRule,
    MisfirePolicy,
    MisfireRule,
    OverlapPolicy,
    OverlapRule,
    ScheduleKind,
    ScheduleSpec,
    ScheduleStatus,
    apply_edit,
    backfill,
    create,
    dump_spec,
    load_spec,
    next_nominal,
    pause,
    plan,
    previous_nominal,
    resume,
)
from unit.schedule.times import DAY, HOUR, MINUTE, SECOND, cron, idle, made, utc

NOW = utc("2026-01-01")


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({}, "schedule"),
        ({"crons": ("* * * * *",), "every": MINUTE, "anchor": NOW}, "schedule"),
        ({"crons": ("* * * * *",), "at": NOW}, "schedule"),
        ({"crons": ("* * * * *",) * 21}, "cron_expression"),
        ({"crons": ("* * * * *", "/5 * * * *")}, "cron_expression"),
        ({"crons": ("* * * * *",), "timezone": "UTC+3"}, "timezone"),
        ({"every": timedelta(), "anchor": NOW}, "every"),
        ({"every": timedelta(milliseconds=500), "anchor": NOW}, "every"),
        ({"every": timedelta(seconds=1.5), "anchor": NOW}, "every"),
        ({"every": 4_000 * DAY, "anchor": NOW}, "every"),
        ({"every": MINUTE, "anchor": NOW.replace(tzinfo=None)}, "anchor"),
        ({"at": utc("2500-01-01")}, "at"),
        ({"at": NOW.replace(tzinfo=None)}, "at"),
        ({"crons": ("* * * * *",), "start_at": NOW, "end_at": NOW - SECOND}, "end_at"),
        ({"crons": ("* * * * *",), "jitter": -SECOND}, "jitter"),
        ({"crons": ("* * * * *",), "jitter": 2 * DAY}, "jitter"),
        ({"every": MINUTE, "anchor": NOW, "jitter": MINUTE}, "jitter"),
        ({"crons": ("* * * * *",), "max_runs": 0}, "max_runs"),
        ({"crons": ("* * * * *",), "start_deadline": timedelta()}, "start_deadline"),
        ({"crons": ("* * * * *",), "pause_after_failures": 0}, "pause_after_failures"),
    ],
)
def test_invalid_specs_are_refused_with_their_field(parts: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ScheduleSpec(**parts)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    "make",
    [
        lambda: MisfirePolicy(window=SECOND),
        lambda: MisfirePolicy(tolerance=2 * HOUR),
        lambda: MisfirePolicy(limit=0),
        lambda: OverlapPolicy(limit=3),
        lambda: OverlapPolicy(rule=OverlapRule.ALLOW, limit=0),
    ],
)
def test_invalid_policies_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidValue):
        make()


def test_kinds() -> None:
    assert cron("@daily").kind is ScheduleKind.CRON
    assert ScheduleSpec(every=MINUTE).kind is ScheduleKind.INTERVAL
    assert ScheduleSpec(at=NOW).kind is ScheduleKind.ONE_OFF


def test_several_expressions_are_a_union() -> None:
    spec = cron("0 9 * * *", "30 9 * * *", "0 9 1 * *", timezone="Europe/Berlin")
    first = next_nominal(spec, utc("2026-07-01"))
    assert first == utc("2026-07-01 07:00")
    assert next_nominal(spec, first) == utc("2026-07-01 07:30")
    assert previous_nominal(spec, first) == utc("2026-06-30 07:30")


def test_start_and_end_are_included() -> None:
    spec = cron("0 * * * *", start_at=utc("2026-01-02 05:00"), end_at=utc("2026-01-02 07:00"))
    times, found = [], next_nominal(spec, NOW)
    while found is not None:
        times.append(found.hour)
        found = next_nominal(spec, found)
    assert times == [5, 6, 7]
    assert previous_nominal(spec, utc("2026-01-02 05:00")) is None


def test_an_interval_starts_at_its_start_or_one_interval_after_its_creation() -> None:
    assert create("s", ScheduleSpec(every=HOUR), NOW).next_nominal == NOW + HOUR
    later = ScheduleSpec(every=HOUR, start_at=NOW + 10 * MINUTE)
    assert create("s", later, NOW).next_nominal == NOW + 10 * MINUTE


def test_the_same_interval_given_again_keeps_its_anchor() -> None:
    state = create("s", ScheduleSpec(every=HOUR), NOW)
    edited = apply_edit(state, ScheduleSpec(every=HOUR), NOW + 10 * MINUTE)
    assert edited == state
    other = apply_edit(state, ScheduleSpec(every=2 * HOUR), NOW + 10 * MINUTE)
    assert other.next_nominal == NOW + 10 * MINUTE + 2 * HOUR


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ScheduleSpec(at=NOW), "at"),
        (cron("@daily", end_at=NOW - DAY), "end_at"),
        (cron("@yearly", start_at=NOW + DAY, end_at=NOW + 2 * DAY), "end_at"),
    ],
)
def test_schedules_that_never_fire_are_refused(spec: ScheduleSpec, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        create("s", spec, NOW)
    assert caught.value.field == field


def test_an_edit_that_would_never_fire_is_refused() -> None:
    with pytest.raises(InvalidValue, match="passed"):
        apply_edit(made(cron("@daily"), "2026-01-01"), cron("@daily", end_at=NOW), NOW + DAY)


def test_a_completed_schedule_comes_back_when_an_edit_gives_it_runs() -> None:
    state = made(cron("0 * * * *", max_runs=1), "2026-01-01")
    done = idle(plan(state, NOW + HOUR).state)
    assert done.status is ScheduleStatus.COMPLETED
    assert apply_edit(done, cron("0 * * * *", max_runs=1), NOW + HOUR) == done
    again = apply_edit(done, cron("0 * * * *", max_runs=2), NOW + 90 * MINUTE)
    assert again.status is ScheduleStatus.ACTIVE
    assert again.next_nominal == NOW + 2 * HOUR
    assert resume(done, NOW) == pause(done) == done


def test_an_edit_of_a_paused_schedule_leaves_it_paused() -> None:
    state = pause(made(cron("0 * * * *"), "2026-01-01"), "why")
    edited = apply_edit(state, cron("30 * * * *"), NOW)
    assert (edited.status, edited.note) == (ScheduleStatus.PAUSED, "why")
    assert resume(edited, NOW).next_nominal == NOW + 30 * MINUTE


def test_resume_after_the_end_completes() -> None:
    state = pause(made(cron("0 * * * *", end_at=NOW + HOUR), "2026-01-01"))
    assert resume(state, NOW + 2 * HOUR).status is ScheduleStatus.COMPLETED


def test_backfill_is_capped() -> None:
    found = backfill(cron("* * * * *"), NOW, NOW + HOUR, limit=10)
    assert found.truncated
    assert [run.nominal for run in found.runs] == [NOW + n * MINUTE for n in range(10)]
    assert not backfill(cron("* * * * *"), NOW, NOW + 10 * MINUTE, limit=10).truncated
    for end, limit in ((NOW, 10), (NOW + HOUR, 0), (NOW + HOUR, 10_001)):
        with pytest.raises(InvalidValue):
            backfill(cron("* * * * *"), NOW, end, limit)


FULL = cron(
    "0 9 * * MON-FRI",
    "@hourly",
    timezone="Europe/Berlin",
    gap=GapRule.SKIP,
    fold=FoldRule.BOTH,
    start_at=NOW,
    end_at=NOW + DAY,
    exclusions=(
        ExclusionCalendar(
            name="c",
            dates=frozenset({date(2026, 12, 25)}),
            patterns=("* * 1 1 *",),
            rule=ExclusionRule.NEXT,
            weekend=frozenset({4, 5}),
        ),
    ),
    jitter=timedelta(seconds=1.5),
    max_runs=7,
    misfire=MisfirePolicy(rule=MisfireRule.RUN_ALL, window=HOUR, limit=3, tolerance=SECOND),
    overlap=OverlapPolicy(rule=OverlapRule.ALLOW, limit=2),
    start_deadline=MINUTE,
    pause_after_failures=4,
)


@pytest.mark.parametrize(
    "spec",
    [FULL, cron("@daily"), ScheduleSpec(every=HOUR, anchor=NOW), ScheduleSpec(at=NOW)],
)
def test_a_spec_survives_json(spec: ScheduleSpec) -> None:
    assert load_spec(json.loads(json.dumps(dump_spec(spec)))) == spec


def test_what_is_left_out_has_its_default() -> None:
    assert load_spec({"cron": "0 9 * * *"}) == cron("0 9 * * *")
    assert load_spec({"every_seconds": 90, "misfire": {"rule": "skip"}}) == replace(
        ScheduleSpec(every=timedelta(seconds=90)), misfire=MisfirePolicy(rule=MisfireRule.SKIP)
    )


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (None, InvalidValue, "schedule"),
        ([], InvalidValue, "schedule"),
        ({"cron": "0 9 * * *", "chron": 1}, InvalidValue, "schedule"),
        ({"cron": 5}, InvalidValue, "cron"),
        ({"cron": [5]}, InvalidValue, "cron"),
        ({"cron": "0 9 * *"}, InvalidCron, "cron_expression"),
        ({"cron": "@daily", "timezone": 5}, InvalidValue, "timezone"),
        ({"cron": "@daily", "timezone": "Mars"}, InvalidTimezone, "timezone"),
        ({"every_seconds": "90"}, InvalidValue, "every_seconds"),
        ({"every_seconds": float("nan")}, InvalidValue, "every_seconds"),
        ({"every_seconds": True}, InvalidValue, "every_seconds"),
        ({"at": "tomorrow"}, InvalidValue, "at"),
        ({"cron": "@daily", "gap": "fill"}, InvalidValue, "gap"),
        ({"cron": "@daily", "misfire": {"rule": "never"}}, InvalidValue, "misfire.rule"),
        ({"cron": "@daily", "misfire": "skip"}, InvalidValue, "misfire"),
        ({"cron": "@daily", "overlap": {"max": 1}}, InvalidValue, "overlap"),
        (
            {"cron": "@daily", "exclusions": [{"dates": ["2026-02-30"]}]},
            InvalidValue,
            "exclusions.dates",
        ),
        ({"cron": "@daily", "exclusions": [{"weekend": [7]}]}, InvalidValue, "exclusions.weekend"),
        ({"cron": "@daily", "max_runs": 1.0}, InvalidValue, "max_runs"),
    ],
)
def test_bad_json_is_refused_with_its_field(
    data: object, error: type[InvalidValue], field: str
) -> None:
    with pytest.raises(error) as caught:
        load_spec(data)
    assert caught.value.field == field
