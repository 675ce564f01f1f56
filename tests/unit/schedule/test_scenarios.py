"""The scenarios S1 to S18: public bug reports of other schedulers, played against the planner."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from mainspring.domain.cron import parse_cron
from mainspring.domain.errors import InvalidCron
from mainspring.domain.schedule import (
    PlannedRun,
    ScheduleSpec,
    ScheduleStatus,
    SkipReason,
    apply_edit,
    backfill,
    pause,
    plan,
    plan_manual,
    previous_nominal,
    resume,
)
from unit.schedule.times import DAY, HOUR, MINUTE, SECOND, cron, idle, made, play, ran, skips, utc


def test_s1_a_long_outage_gives_one_late_run_and_then_normal_minutes() -> None:
    state = made(cron("* * * * *"), "2026-01-01 00:00")
    after_outage = plan(state, utc("2026-01-01 01:42:20"))
    assert ran(after_outage) == [utc("2026-01-01 01:42")]
    assert skips(after_outage) == [(SkipReason.COALESCED, 101)]
    state = idle(after_outage.state)
    times = [
        time
        for _, made_plan in play(
            state, utc("2026-01-01 01:42:21"), utc("2026-01-01 01:47:00"), SECOND
        )
        for time in ran(made_plan)
    ]
    assert times == [utc(f"2026-01-01 01:{minute}") for minute in range(43, 48)]


def test_s1_resume_after_102_minutes_of_pause_with_catch_up() -> None:
    state = pause(made(cron("* * * * *"), "2026-01-01 00:00"))
    now = utc("2026-01-01 01:42:20")
    assert len(plan(resume(state, now, catch_up=True), now).runs) == 1
    assert plan(resume(state, now), now).is_empty


def test_s2_an_edit_to_a_later_day_does_not_fire_at_once() -> None:
    state = made(cron("0 0 10 * *"), "2026-03-01")
    state = idle(plan(state, utc("2026-03-10 00:00:01")).state)
    state = apply_edit(state, cron("0 0 11 * *"), utc("2026-03-12"))
    assert state.next_nominal == utc("2026-04-11")
    assert plan(state, utc("2026-03-12 00:00:01")).is_empty


@pytest.mark.parametrize(
    ("edited_at", "following"),
    [("2026-03-10 09:05", "2026-03-10 09:10"), ("2026-03-10 10:00", "2026-03-11 09:10")],
)
def test_s3_an_edit_counts_from_now(edited_at: str, following: str) -> None:
    state = made(cron("0 9 * * *"), "2026-03-09 12:00")
    state = idle(plan(state, utc("2026-03-10 09:00")).state)
    state = apply_edit(state, cron("10 9 * * *"), utc(edited_at))
    assert plan(state, utc(edited_at)).is_empty
    assert state.next_nominal == utc(following)
    assert state.version == 2


@pytest.mark.parametrize("same", ["0 * * * *", "  0 *  * * * ", "@hourly"])
def test_s4_an_edit_that_keeps_the_timing_keeps_the_due_time(same: str) -> None:
    state = made(cron("0 * * * *"), "2026-03-10 09:30")
    edited = apply_edit(
        state, cron(same, pause_after_failures=3, jitter=SECOND), utc("2026-03-10 10:00:03")
    )
    assert edited.version == state.version
    assert ran(plan(edited, utc("2026-03-10 10:00:03"))) == [utc("2026-03-10 10:00")]


def test_s5_a_cursor_of_another_timetable_does_not_run() -> None:
    state = made(cron("0 7 * * *"), "2026-03-13 12:00")
    saturday = utc("2026-03-14 07:00")
    assert state.next_nominal == saturday
    behind = replace(state, spec=cron("0 7 * * 1-5"))
    found = plan(behind, saturday)
    assert not found.runs
    assert skips(found) == [(SkipReason.STALE_TIME, 1)]
    assert found.state.next_nominal == utc("2026-03-16 07:00")
    only_version = plan(replace(state, version=2), saturday)
    assert not only_version.runs
    assert only_version.state.next_nominal == utc("2026-03-15 07:00")


def test_s6_an_interval_does_not_drift() -> None:
    spec = ScheduleSpec(every=MINUTE, anchor=utc("2026-01-01 02:02"))
    state = made(spec, "2026-01-01 02:02")
    times = [
        time
        for _, made_plan in play(
            state, utc("2026-01-01 02:02:01"), utc("2026-01-01 03:02:01"), MINUTE
        )
        for time in ran(made_plan)
    ]
    assert len(times) == 60
    assert times[-1] == utc("2026-01-01 03:02")
    assert {later - time for time, later in pairwise(times)} == {MINUTE}


def test_s7_a_manual_run_moves_nothing() -> None:
    spec = ScheduleSpec(every=DAY, anchor=utc("2026-01-01 01:00"))
    state = made(spec, "2026-01-01 02:00")
    run = plan_manual(state, utc("2026-01-01 11:30"))
    assert isinstance(run, PlannedRun)
    assert run.run_at == utc("2026-01-01 11:30")
    assert state.next_nominal == utc("2026-01-02 01:00")


def test_s8_spring_forward_replays_no_minutes() -> None:
    state = made(cron("* * * * *", timezone="America/New_York"), "2026-03-08 06:50")
    times = [
        time
        for _, made_plan in play(state, utc("2026-03-08 06:50"), utc("2026-03-08 07:10"), MINUTE)
        for time in ran(made_plan)
    ]
    assert times == [utc("2026-03-08 06:50") + MINUTE * n for n in range(1, 21)]


def test_s9_planning_again_fires_nothing_again() -> None:
    state = made(cron("0 * * * *"), "2026-03-10 09:30")
    first = plan(state, utc("2026-03-10 10:00:01"))
    assert plan(state, utc("2026-03-10 10:00:05")).runs[0].nominal == first.runs[0].nominal
    assert plan(first.state, utc("2026-03-10 10:00:05")).is_empty


def test_s10_a_second_of_lateness_is_no_misfire() -> None:
    spec = cron("0 * * * *")
    for rule in ("run_once", "skip", "run_all"):
        policy = replace(spec.misfire, rule=type(spec.misfire.rule)(rule))
        state = made(replace(spec, misfire=policy), "2026-03-10 09:30")
        found = plan(state, utc("2026-03-10 10:00:01") + timedelta(milliseconds=200))
        assert ran(found) == [utc("2026-03-10 10:00")]
        assert found.runs[0].lateness == timedelta(seconds=1.2)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6 *"])
def test_s11_impossible_dates_are_refused(text: str) -> None:
    with pytest.raises(InvalidCron, match="never fires"):
        cron(text)
    assert made(cron("0 0 31 4,5 *"), "2026-04-01").next_nominal == utc("2026-05-31")


def test_s12_the_previous_time_is_never_in_the_future() -> None:
    spec = cron("0 1 * * *", timezone="America/New_York")
    assert previous_nominal(spec, utc("2024-11-03 05:30")) == utc("2024-11-03 05:00")


def test_s13_daily_windows_follow_the_local_midnight() -> None:
    spec = cron("0 0 * * *", timezone="America/New_York")
    found = backfill(spec, utc("2026-03-07 05:00"), utc("2026-03-11 04:00"))
    bounds = ["2026-03-07 05:00", "2026-03-08 05:00", "2026-03-09 04:00", "2026-03-10 04:00"]
    assert [run.nominal for run in found.runs] == [utc(text) for text in bounds]
    assert [run.previous for run in found.runs][1:] == [utc(text) for text in bounds[:-1]]
    assert found.runs[0].previous == utc("2026-03-06 05:00")


def test_s14_an_interval_counts_real_hours() -> None:
    spec = ScheduleSpec(every=2 * HOUR, anchor=utc("2026-03-08 05:30"), timezone="America/New_York")
    assert made(spec, "2026-03-08 05:30").next_nominal == utc("2026-03-08 07:30")


def test_s15_an_outage_over_a_daily_time_runs_it_late() -> None:
    state = made(cron("0 9 * * *"), "2026-03-10 08:00")
    found = plan(state, utc("2026-03-10 09:01:15"))
    assert ran(found) == [utc("2026-03-10 09:00")]
    assert found.runs[0].lateness == timedelta(seconds=75)


def test_s16_resume_runs_nothing_extra() -> None:
    state = pause(made(cron("0 * * * *"), "2026-03-10 09:30"), "maintenance")
    assert (state.status, state.note) == (ScheduleStatus.PAUSED, "maintenance")
    assert plan(state, utc("2026-03-10 11:30")).is_empty
    resumed = resume(state, utc("2026-03-10 12:00:10"), note="done")
    assert plan(resumed, utc("2026-03-10 12:00:10")).is_empty
    assert resumed.next_nominal == utc("2026-03-10 13:00")


def test_s17_the_repeated_hour_is_not_silent() -> None:
    state = made(cron("* * * * *", timezone="CET"), "2016-10-30 01:00")
    runs = [
        time
        for _, made_plan in play(state, utc("2016-10-30 01:00"), utc("2016-10-30 02:00"), MINUTE)
        for time in ran(made_plan)
    ]
    assert len(runs) == 60


def test_s18_the_first_time_of_the_second_pass() -> None:
    expression = parse_cron("*/5 * * * *", "Europe/Zurich")
    assert expression.next_after(utc("2023-10-29 00:55")) == utc("2023-10-29 01:00")
