"""`plan`: which nominal times of a schedule become runs now, and which are skipped and why.

Nothing here reads a clock or a store: the same state and time always give the same plan, so two
schedulers that plan the same schedule agree, and a unique key on (schedule, nominal time) makes
the second one do nothing.
"""

from dataclasses import replace
from datetime import datetime

from mainspring.domain.schedule.jitter import jitter_offset
from mainspring.domain.schedule.misfire import due_times
from mainspring.domain.schedule.overlap import Decision, Occupancy, decide
from mainspring.domain.schedule.plan import Plan, PlannedRun, SkippedTimes, SkipReason
from mainspring.domain.schedule.policy import OverlapPolicy, OverlapRule
from mainspring.domain.schedule.state import ScheduleState, ScheduleStatus
from mainspring.domain.schedule.timetable import is_nominal, next_nominal, previous_nominal

_SKIPPED = {Decision.SKIP: SkipReason.OVERLAP, Decision.SKIP_FULL: SkipReason.BUFFER_FULL}


def plan(state: ScheduleState, now: datetime) -> Plan:
    """Plan every nominal time of ``state`` up to and including ``now``.

    The work is bounded whatever the time since the last plan: missed times are counted up to
    1,000 and listed only within the misfire window. A paused or completed schedule gets an empty
    plan. A cursor that the schedule does not have as a nominal time gives way to the first time
    after ``now``, and is recorded as skipped if it was due. Waiting times start, oldest first,
    as soon as no run is unfinished: plan again when one has ended.
    """
    if state.status is not ScheduleStatus.ACTIVE:
        return Plan(version=state.version, runs=(), buffered=(), skipped=(), state=state)
    draft = _Draft(state, now)
    draft.check_cursor()
    draft.release_waiting()
    draft.take_due()
    return draft.finish()


def plan_manual(
    state: ScheduleState, now: datetime, overlap: OverlapPolicy | None = None
) -> PlannedRun | SkipReason:
    """A run that a user asks for now; its nominal time is ``now`` and it has no jitter.

    It moves neither the cursor nor the anchor nor the count of runs, and works while the schedule
    is paused. ``overlap`` takes the place of the schedule's own policy; a policy that buffers
    skips instead, because a manual run does not wait.
    """
    policy = overlap or state.spec.overlap
    decision = decide(policy, Occupancy(state.unfinished, len(state.buffered)))
    if decision not in (Decision.START, Decision.START_AND_CANCEL):
        return SkipReason.OVERLAP
    deadline = state.spec.start_deadline
    return PlannedRun(
        nominal=now,
        previous=previous_nominal(state.spec, now),
        run_at=now,
        start_by=None if deadline is None else now + deadline,
        lateness=now - now,
        cancels_previous=decision is Decision.START_AND_CANCEL,
    )


class _Draft:
    """A plan in the making. Its state is kept in parts, and put together once at the end."""

    def __init__(self, state: ScheduleState, now: datetime) -> None:
        self.before = state
        self.spec = state.spec
        self.now = now
        self.cursor = state.next_nominal
        self.last = state.last_nominal
        self.waiting = list(state.buffered)
        self.made = state.runs
        self.occupancy = Occupancy(state.unfinished, len(state.buffered))
        self.runs: list[PlannedRun] = []
        self.buffered: list[datetime] = []
        self.skipped: list[SkippedTimes] = []

    def check_cursor(self) -> None:
        """Replace a cursor that was computed for another timetable."""
        if self.cursor is None:
            return
        current = self.before.cursor_version == self.before.version
        if current and is_nominal(self.spec, self.cursor):
            return
        if self.cursor <= self.now:
            self.skipped.append(SkippedTimes.one(self.cursor, SkipReason.STALE_TIME))
        self.cursor = next_nominal(self.spec, self.now)
        self.last = None if self.cursor is None else previous_nominal(self.spec, self.cursor)

    def release_waiting(self) -> None:
        """Start the oldest waiting time if nothing is unfinished, dropping those too late."""
        while self.waiting and self.occupancy.unfinished == 0:
            nominal = self.waiting.pop(0)
            self.occupancy = Occupancy(0, len(self.waiting))
            previous = previous_nominal(self.spec, nominal)
            run = self._run(nominal, previous, next_nominal(self.spec, nominal))
            if self._too_late(run):
                self.made -= 1
                continue
            self.runs.append(replace(run, from_buffer=True))
            self.occupancy = self.occupancy.after(Decision.START)

    def take_due(self) -> None:
        """Run, buffer or skip the due times, and move the cursor past them."""
        if self.cursor is None or self.cursor > self.now:
            return
        due = due_times(self.spec, self.cursor, self.now)
        self.skipped += due.skipped
        previous = self.last
        if due.run and due.run[0] != self.cursor:
            previous = previous_nominal(self.spec, due.run[0])
        for nominal, after in zip(due.run, [*due.run, due.following][1:], strict=True):
            if self._is_used_up():
                break
            self._admit(self._run(nominal, previous, after), is_last=nominal == due.run[-1])
            previous = nominal
        self.last = (due.run or [skipped.last for skipped in due.skipped])[-1]
        self.cursor = due.following

    def finish(self) -> Plan:
        """The finished plan, its state completed if nothing is left to do."""
        cursor = None if self._is_used_up() else self.cursor
        over = cursor is None and not self.waiting
        state = replace(
            self.before,
            status=ScheduleStatus.COMPLETED if over else self.before.status,
            next_nominal=cursor,
            last_nominal=self.last,
            cursor_version=self.before.version,
            runs=self.made,
            unfinished=self.occupancy.unfinished,
            buffered=tuple(self.waiting),
        )
        return Plan(
            version=self.before.version,
            runs=tuple(self.runs),
            buffered=tuple(self.buffered),
            skipped=tuple(self.skipped),
            state=state,
        )

    def _is_used_up(self) -> bool:
        return self.spec.max_runs is not None and self.made >= self.spec.max_runs

    def _run(
        self, nominal: datetime, previous: datetime | None, following: datetime | None
    ) -> PlannedRun:
        run_at = nominal
        if self.spec.jitter:
            until_next = None if following is None else following - nominal
            run_at += jitter_offset(self.before.schedule_id, nominal, self.spec.jitter, until_next)
        deadline = self.spec.start_deadline
        return PlannedRun(
            nominal=nominal,
            previous=previous,
            run_at=run_at,
            start_by=None if deadline is None else run_at + deadline,
            lateness=self.now - nominal,
        )

    def _too_late(self, run: PlannedRun) -> bool:
        """Record and report a run whose start deadline has passed."""
        if run.start_by is None or run.start_by >= self.now:
            return False
        self.skipped.append(SkippedTimes.one(run.nominal, SkipReason.START_DEADLINE))
        return True

    def _admit(self, run: PlannedRun, *, is_last: bool) -> None:
        if self._too_late(run):
            return
        policy = self.spec.overlap
        if policy.rule is OverlapRule.CANCEL_PREVIOUS and not is_last:
            self.skipped.append(SkippedTimes.one(run.nominal, SkipReason.SUPERSEDED))
            return
        decision = decide(policy, self.occupancy)
        self.occupancy = self.occupancy.after(decision)
        if reason := _SKIPPED.get(decision):
            self.skipped.append(SkippedTimes.one(run.nominal, reason))
            return
        self.made += 1
        if decision is Decision.WAIT:
            self.buffered.append(run.nominal)
            self.waiting.append(run.nominal)
        elif decision is Decision.START_AND_CANCEL:
            self.runs.append(replace(run, cancels_previous=True))
        else:
            self.runs.append(run)
