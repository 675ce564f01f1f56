from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from mainspring.domain.schedule import (
    ExclusionCalendar,
    ExclusionRule,
    MisfirePolicy,
    MisfireRule,
    OverlapPolicy,
    OverlapRule,
    PlannedRun,
    ScheduleSpec,
    ScheduleStatus,
    SkipReason,
    nominal_times,
    pause,
    plan,
    plan_manual,
    recompute,
    record_outcome,
)
from unit.schedule.times import DAY, HOUR, MINUTE, SECOND, cron, idle, made, ran, skips, utc

HOURLY = cron("0 * * * *")
ALLOW = OverlapPolicy(rule=OverlapRule.ALLOW)
LATER = utc("2026-01-01 05:30")
"""Five and a half hours after the schedules here are made: 01:00 to 05:00 are due."""


def after_outage(rule: MisfireRule, **policy: object) -> ScheduleSpec:
    misfire = MisfirePolicy(rule=rule, **policy)  # type: ignore[arg-type]
    return replace(HOURLY, misfire=misfire, overlap=ALLOW)


@pytest.mark.parametrize(
    ("spec", "hours", "skipped"),
    [
        (after_outage(MisfireRule.RUN_ONCE), [5], [(SkipReason.COALESCED, 4)]),
        (after_outage(MisfireRule.SKIP), [], [(SkipReason.MISSED, 5)]),
        (
            after_outage(MisfireRule.SKIP, tolerance=40 * MINUTE),
            [5],
            [(SkipReason.MISSED, 4)],
        ),
        (after_outage(MisfireRule.RUN_ALL), [1, 2, 3, 4, 5], []),
        (after_outage(MisfireRule.RUN_ALL, limit=2), [4, 5], [(SkipReason.OVER_LIMIT, 3)]),
        (
            after_outage(MisfireRule.RUN_ALL, window=2 * HOUR),
            [4, 5],
            [(SkipReason.OUTSIDE_WINDOW, 3)],
        ),
        (
            after_outage(MisfireRule.RUN_ONCE, window=2 * HOUR),
            [5],
            [(SkipReason.OUTSIDE_WINDOW, 3), (SkipReason.COALESCED, 1)],
        ),
        (after_outage(MisfireRule.RUN_ONCE, window=MINUTE), [], [(SkipReason.OUTSIDE_WINDOW, 5)]),
    ],
)
def test_misfire_policy(
    spec: ScheduleSpec, hours: list[int], skipped: list[tuple[SkipReason, int]]
) -> None:
    found = plan(made(spec, "2026-01-01"), LATER)
    assert [time.hour for time in ran(found)] == hours
    assert skips(found) == skipped
    assert found.state.next_nominal == utc("2026-01-01 06:00")
    assert found.state.last_nominal == utc("2026-01-01 05:00")
    assert [run.previous for run in found.runs] == [run.nominal - HOUR for run in found.runs]


def test_a_very_long_outage_is_planned_in_bounded_work() -> None:
    state = made(cron("* * * * *"), "2016-01-01")
    found = plan(state, utc("2026-01-01 00:00:50"))
    assert ran(found) == [utc("2026-01-01")]
    outside, coalesced = found.skipped
    assert (outside.count, outside.exact) == (1_000, False)
    assert (outside.first, coalesced.last) == (utc("2016-01-01 00:01"), utc("2025-12-31 23:59"))
    assert coalesced.first - outside.last == MINUTE
    seconds = made(ScheduleSpec(every=SECOND, anchor=utc("2016-01-01")), "2016-01-01")
    spans = plan(seconds, utc("2026-01-01")).skipped
    assert all(span.exact for span in spans)
    assert sum(span.count for span in spans) == (utc("2026-01-01") - utc("2016-01-01")) / SECOND - 1


@pytest.mark.parametrize(
    ("policy", "unfinished", "waiting", "outcome"),
    [
        (OverlapPolicy(), 0, 0, "start"),
        (OverlapPolicy(), 1, 0, SkipReason.OVERLAP),
        (OverlapPolicy(rule=OverlapRule.BUFFER_ONE), 0, 0, "start"),
        (OverlapPolicy(rule=OverlapRule.BUFFER_ONE), 1, 0, "wait"),
        (OverlapPolicy(rule=OverlapRule.BUFFER_ONE), 1, 1, SkipReason.BUFFER_FULL),
        (OverlapPolicy(rule=OverlapRule.BUFFER_ALL, limit=3), 1, 2, "wait"),
        (OverlapPolicy(rule=OverlapRule.BUFFER_ALL, limit=3), 1, 3, SkipReason.BUFFER_FULL),
        (OverlapPolicy(rule=OverlapRule.CANCEL_PREVIOUS), 0, 0, "start"),
        (OverlapPolicy(rule=OverlapRule.CANCEL_PREVIOUS), 2, 0, "cancel"),
        (ALLOW, 50, 0, "start"),
        (OverlapPolicy(rule=OverlapRule.ALLOW, limit=2), 1, 0, "start"),
        (OverlapPolicy(rule=OverlapRule.ALLOW, limit=2), 2, 0, SkipReason.OVERLAP),
    ],
)
def test_overlap_policy(
    policy: OverlapPolicy, unfinished: int, waiting: int, outcome: str | SkipReason
) -> None:
    state = made(replace(HOURLY, overlap=policy), "2026-01-01 04:30")
    earlier = tuple(utc("2026-01-01") + HOUR * n for n in range(waiting))
    state = replace(state, unfinished=unfinished, buffered=earlier)
    found = plan(state, utc("2026-01-01 05:00"))
    nominal = utc("2026-01-01 05:00")
    if isinstance(outcome, SkipReason):
        assert skips(found) == [(outcome, 1)]
        assert not found.runs
        assert found.state.unfinished == unfinished
        assert found.state.runs == 0
    elif outcome == "wait":
        assert found.buffered == (nominal,)
        assert found.state.buffered == (*earlier, nominal)
        assert not found.runs
    else:
        assert ran(found) == [nominal]
        assert found.runs[0].cancels_previous == (outcome == "cancel")
        assert found.state.unfinished == (1 if outcome == "cancel" else unfinished + 1)
    assert found.state.next_nominal == utc("2026-01-01 06:00")


def test_a_waiting_time_starts_when_the_previous_run_ends() -> None:
    spec = replace(HOURLY, overlap=OverlapPolicy(rule=OverlapRule.BUFFER_ALL))
    state = plan(made(spec, "2026-01-01 00:30"), utc("2026-01-01 01:00")).state
    state = plan(state, utc("2026-01-01 02:00")).state
    state = plan(state, utc("2026-01-01 03:00")).state
    assert state.buffered == (utc("2026-01-01 02:00"), utc("2026-01-01 03:00"))
    found = plan(idle(state), utc("2026-01-01 03:10"))
    assert ran(found) == [utc("2026-01-01 02:00")]
    assert found.runs[0].from_buffer
    assert found.runs[0].previous == utc("2026-01-01 01:00")
    assert found.state.buffered == (utc("2026-01-01 03:00"),)
    # A due time goes behind those that wait already.
    due = plan(idle(found.state), utc("2026-01-01 04:00"))
    assert ran(due) == [utc("2026-01-01 03:00")]
    assert due.buffered == (utc("2026-01-01 04:00"),)


def test_of_several_due_times_that_cancel_each_other_the_last_runs() -> None:
    spec = replace(
        after_outage(MisfireRule.RUN_ALL), overlap=OverlapPolicy(rule=OverlapRule.CANCEL_PREVIOUS)
    )
    found = plan(replace(made(spec, "2026-01-01"), unfinished=1), LATER)
    assert ran(found) == [utc("2026-01-01 05:00")]
    assert found.runs[0].cancels_previous
    assert skips(found) == [(SkipReason.SUPERSEDED, 1)] * 4


def test_start_deadline() -> None:
    spec = replace(after_outage(MisfireRule.RUN_ALL), start_deadline=2 * HOUR)
    found = plan(made(spec, "2026-01-01"), LATER)
    assert [time.hour for time in ran(found)] == [4, 5]
    assert skips(found) == [(SkipReason.START_DEADLINE, 1)] * 3
    assert found.runs[0].start_by == utc("2026-01-01 06:00")


def test_a_waiting_time_past_its_deadline_is_dropped() -> None:
    spec = replace(
        HOURLY, overlap=OverlapPolicy(rule=OverlapRule.BUFFER_ONE), start_deadline=30 * MINUTE
    )
    state = plan(made(spec, "2026-01-01 00:30"), utc("2026-01-01 01:00")).state
    state = plan(state, utc("2026-01-01 02:00")).state
    found = plan(idle(state), utc("2026-01-01 02:45"))
    assert skips(found) == [(SkipReason.START_DEADLINE, 1)]
    assert found.state.buffered == ()
    assert found.state.runs == 1


def test_max_runs_completes_the_schedule() -> None:
    spec = replace(after_outage(MisfireRule.RUN_ALL), max_runs=3)
    found = plan(made(spec, "2026-01-01"), LATER)
    assert [time.hour for time in ran(found)] == [1, 2, 3]
    assert found.state.status is ScheduleStatus.COMPLETED
    assert found.state.next_nominal is None
    assert plan(found.state, LATER + DAY).is_empty


def test_end_at_is_included_and_completes_the_schedule() -> None:
    spec = replace(HOURLY, end_at=utc("2026-01-01 02:00"))
    state = made(spec, "2026-01-01")
    state = idle(plan(state, utc("2026-01-01 01:00")).state)
    assert state.status is ScheduleStatus.ACTIVE
    found = plan(state, utc("2026-01-01 02:00"))
    assert ran(found) == [utc("2026-01-01 02:00")]
    assert found.state.status is ScheduleStatus.COMPLETED


def test_a_one_off_runs_once() -> None:
    spec = ScheduleSpec(at=utc("2026-01-01 12:00"))
    found = plan(made(spec, "2026-01-01"), utc("2026-01-01 12:00:01"))
    assert ran(found) == [utc("2026-01-01 12:00")]
    assert found.runs[0].previous is None
    assert found.state.status is ScheduleStatus.COMPLETED


def test_jitter_is_the_same_for_every_planner_and_keeps_the_order() -> None:
    spec = replace(cron("* * * * *", overlap=ALLOW), jitter=HOUR)
    state = made(spec, "2026-01-01")
    offsets = set()
    for _ in range(50):
        assert state.next_nominal is not None
        found = plan(state, state.next_nominal)
        assert found == plan(state, state.next_nominal)
        run = found.runs[0]
        assert run.nominal <= run.run_at < run.nominal + MINUTE
        offsets.add(run.run_at - run.nominal)
        state = idle(found.state)
    assert len(offsets) > 40
    other = plan(made(spec, "2026-01-01", "other"), utc("2026-01-01 00:01")).runs[0]
    assert other.run_at != plan(made(spec, "2026-01-01"), utc("2026-01-01 00:01")).runs[0].run_at


def test_pause_after_failures() -> None:
    state = made(replace(HOURLY, pause_after_failures=2), "2026-01-01")
    state = record_outcome(state, succeeded=False)
    state = record_outcome(record_outcome(state, succeeded=True), succeeded=False)
    assert state.status is ScheduleStatus.ACTIVE
    state = record_outcome(state, succeeded=False)
    assert state.status is ScheduleStatus.PAUSED
    assert state.note == "Paused after 2 failed runs in a row."


def test_a_manual_run_follows_the_overlap_policy_or_its_own() -> None:
    now = utc("2026-01-01 00:10")
    busy = replace(pause(made(HOURLY, "2026-01-01")), unfinished=1)
    assert plan_manual(busy, now) is SkipReason.OVERLAP
    run = plan_manual(busy, now, ALLOW)
    assert isinstance(run, PlannedRun)
    assert run.nominal == run.run_at == now
    assert run.previous == utc("2026-01-01")


def test_new_zone_data_moves_a_future_time_and_keeps_a_due_one() -> None:
    state = made(cron("0 9 * * *", timezone="Europe/Berlin"), "2026-01-01")
    stored = replace(state, next_nominal=utc("2026-01-01 07:00"))
    assert recompute(stored, utc("2026-01-01 06:00")).next_nominal == utc("2026-01-01 08:00")
    assert recompute(stored, utc("2026-01-01 07:30")) == stored


def random_spec(random: Random) -> ScheduleSpec:
    exclusions: tuple[ExclusionCalendar, ...] = ()
    if random.random() < 0.3:
        rule = random.choice(list(ExclusionRule))
        exclusions = (ExclusionCalendar(name="c", patterns=("* * * * WED",), rule=rule),)
    policies: dict[str, object] = {
        "exclusions": exclusions,
        "jitter": random.choice([timedelta(), 20 * SECOND]),
        "misfire": MisfirePolicy(
            rule=random.choice(list(MisfireRule)),
            window=random.choice([HOUR, DAY]),
            limit=random.choice([1, 3, 100]),
        ),
        "overlap": OverlapPolicy(rule=random.choice(list(OverlapRule))),
        "start_deadline": random.choice([None, 10 * MINUTE]),
        "timezone": random.choice(["UTC", "America/New_York", "Australia/Lord_Howe"]),
    }
    if random.random() < 0.3:
        policies["every"] = timedelta(seconds=random.choice([30, 420, 5000]))
        policies["anchor"] = utc("2026-03-07")
        return ScheduleSpec(**policies)  # type: ignore[arg-type]
    texts = ["*/7 * * * *", "*/20 1-3 * * *", "0 */2 * * *", "30 2 * * *", "15,45 * * * 1-5"]
    return ScheduleSpec(crons=tuple(random.sample(texts, 2)), **policies)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(24))
def test_every_nominal_time_is_accounted_for_exactly_once(seed: int) -> None:
    """Whatever the policies, outages and run times: run, waiting or skipped, and never twice."""
    print(f"seed {seed}")
    random = Random(seed)
    spec = random_spec(random)
    start = utc("2026-03-07")
    state = made(spec, "2026-03-07")
    seen: list[datetime] = []
    now, end = start, utc("2026-03-09 12:00")
    while now < end:
        found = plan(state, now)
        assert plan(state, now) == found
        fresh = [run.nominal for run in found.runs if not run.from_buffer]
        seen += [*fresh, *found.buffered]
        for skipped in found.skipped:
            if skipped.reason is SkipReason.START_DEADLINE and skipped.first in state.buffered:
                continue
            span = list(nominal_times(spec, skipped.first, skipped.last))
            assert len(span) == skipped.count
            seen += span
        assert all(run.nominal in state.buffered for run in found.runs if run.from_buffer)
        state = idle(found.state) if random.random() < 0.5 else found.state
        pause_for = random.choice([SECOND, 5 * SECOND, MINUTE, HOUR, 7 * HOUR])
        now += random.random() * pause_for
    assert sorted(seen) == list(nominal_times(spec, start + SECOND, found_end(seen, start)))
    assert len(seen) == len(set(seen))


def found_end(seen: list[datetime], start: datetime) -> datetime:
    return max(seen, default=start)
