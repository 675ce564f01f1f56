"""`ScheduleState`: a stored schedule, and the pure changes of it that users and runs cause."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule.spec import ScheduleKind, ScheduleSpec
from mainspring.domain.schedule.timetable import next_nominal, previous_nominal

_INSTANT = timedelta(microseconds=1)
NOTE_MAX = 1_000


class ScheduleStatus(StrEnum):
    """`COMPLETED` schedules have no nominal time left or used up their runs."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule with its position in its own timetable.

    ``next_nominal`` is the stored cursor and ``last_nominal`` the nominal time just before it.
    ``version`` counts changes of timing and ``cursor_version`` is the version that the cursor was
    computed under; they differ only if something else than these functions changed one of them.
    ``runs`` counts the runs made so far, manual ones not included, ``unfinished`` the runs that
    have not ended yet, and ``buffered`` holds the nominal times that wait for them.
    """

    schedule_id: str
    spec: ScheduleSpec
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    note: str = ""
    version: int = 1
    cursor_version: int = 1
    next_nominal: datetime | None = None
    last_nominal: datetime | None = None
    runs: int = 0
    unfinished: int = 0
    buffered: tuple[datetime, ...] = ()
    consecutive_failures: int = 0

    @property
    def runs_left(self) -> int | None:
        """How many runs ``max_runs`` still allows; None without a bound."""
        if self.spec.max_runs is None:
            return None
        return max(self.spec.max_runs - self.runs, 0)


def create(schedule_id: str, spec: ScheduleSpec, now: datetime) -> ScheduleState:
    """A new schedule whose first nominal time is later than ``now``.

    Raises `InvalidValue` if it would never fire. The start time counts as later: an interval
    schedule that starts in the future fires at its start.
    """
    anchored = spec.with_anchor(now)
    state = _with_cursor(ScheduleState(schedule_id=schedule_id, spec=anchored), now)
    if state.next_nominal is None:
        raise _never_fires(spec, now)
    return state


def apply_edit(state: ScheduleState, spec: ScheduleSpec, now: datetime) -> ScheduleState:
    """The schedule after an edit.

    Only a change of timing moves the cursor, and then to the first time later than ``now``; any
    other edit leaves a due time due. Runs that exist already are not touched. A completed
    schedule becomes active again when the edit gives it times or runs to make.
    """
    if spec.every == state.spec.every and spec.start_at == state.spec.start_at:
        spec = spec.with_anchor(state.spec.anchor or now)
    spec = spec.with_anchor(now)
    edited = replace(state, spec=spec)
    if spec.timing == state.spec.timing:
        if state.status is not ScheduleStatus.COMPLETED or edited.runs_left == 0:
            return edited
        revived = _with_cursor(replace(edited, status=ScheduleStatus.ACTIVE), now)
        return edited if revived.next_nominal is None else revived
    version = state.version + 1
    edited = _with_cursor(replace(edited, version=version, cursor_version=version), now)
    if edited.next_nominal is None:
        raise _never_fires(spec, now)
    if state.status is ScheduleStatus.COMPLETED and edited.runs_left != 0:
        return replace(edited, status=ScheduleStatus.ACTIVE)
    return edited


def pause(state: ScheduleState, note: str = "") -> ScheduleState:
    """The schedule paused, with a note that says why; a completed one stays completed."""
    if state.status is ScheduleStatus.COMPLETED:
        return state
    if len(note) > NOTE_MAX:
        raise InvalidValue(
            f"The note has {len(note)} characters; at most {NOTE_MAX} are accepted.", field="note"
        )
    return replace(state, status=ScheduleStatus.PAUSED, note=note)


def resume(
    state: ScheduleState, now: datetime, *, note: str = "", catch_up: bool = False
) -> ScheduleState:
    """The schedule running again.

    The times of the pause are forgotten, unless ``catch_up`` hands them to the misfire policy.
    """
    if state.status is not ScheduleStatus.PAUSED:
        return state
    active = replace(state, status=ScheduleStatus.ACTIVE, note=note, consecutive_failures=0)
    return active if catch_up else _completed_if_over(_with_cursor(active, now))


def recompute(state: ScheduleState, now: datetime) -> ScheduleState:
    """The schedule after the installed time zone data changed.

    A time that is due already stays due; a future one is computed again from ``now``.
    """
    due = state.next_nominal is not None and state.next_nominal <= now
    if due or state.status is ScheduleStatus.COMPLETED:
        return state
    return _completed_if_over(_with_cursor(state, now))


def record_outcome(state: ScheduleState, *, succeeded: bool) -> ScheduleState:
    """The schedule after one of its runs ended for good, all retries included.

    Pauses it, with a note, when ``pause_after_failures`` runs failed in a row.
    """
    if succeeded:
        return replace(state, consecutive_failures=0)
    failures = state.consecutive_failures + 1
    failed = replace(state, consecutive_failures=failures)
    limit = state.spec.pause_after_failures
    if limit is None or failures < limit or state.status is not ScheduleStatus.ACTIVE:
        return failed
    return pause(failed, f"Paused after {failures} failed runs in a row.")


def _with_cursor(state: ScheduleState, now: datetime) -> ScheduleState:
    """The cursor set to the first nominal time later than ``now``."""
    following = next_nominal(state.spec, now)
    last = None if following is None else previous_nominal(state.spec, following)
    return replace(state, next_nominal=following, last_nominal=last, cursor_version=state.version)


def _completed_if_over(state: ScheduleState) -> ScheduleState:
    if state.next_nominal is None and not state.buffered:
        return replace(state, status=ScheduleStatus.COMPLETED)
    return state


def _never_fires(spec: ScheduleSpec, now: datetime) -> InvalidValue:
    if spec.kind is ScheduleKind.ONE_OFF and spec.at is not None and spec.at <= now:
        return InvalidValue(
            f"The time {spec.at.isoformat()} is not later than now, {now.isoformat()}; choose a"
            " later time, or submit the task at once.",
            field="at",
        )
    if spec.end_at is not None and spec.end_at <= now:
        return InvalidValue(
            f"The schedule ends at {spec.end_at.isoformat()}, which has passed; choose a later"
            " end.",
            field="end_at",
        )
    if spec.exclusions:
        return InvalidValue(
            "The schedule never fires, because its exclusions leave no time; remove some of them.",
            field="exclusions",
        )
    return InvalidValue(
        f"The schedule never fires after {now.isoformat()} within its start and end; widen them.",
        field="end_at",
    )
