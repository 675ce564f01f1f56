"""What a plan consists of: runs, waiting times and skipped times, each with its reason."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.domain.schedule.state import ScheduleState


class SkipReason(StrEnum):
    """Why a nominal time did not become a run.

    * ``missed``: it was missed, and the misfire policy is ``skip``
    * ``coalesced``: it was missed, and a later missed time ran for all (``run_once``)
    * ``over_limit``: it was missed, and newer times used up the limit of ``run_all``
    * ``outside_window``: it was older than the misfire window
    * ``start_deadline``: it could no longer start within the start deadline
    * ``overlap``: an earlier run was unfinished
    * ``buffer_full``: an earlier run was unfinished, and enough times were waiting already
    * ``superseded``: a later time of the same plan would have cancelled it at once
    * ``unique``: a live task, of this schedule or not, has the unique key of the run
    * ``stale_time``: the schedule does not have this time (any more)
    """

    MISSED = "missed"
    COALESCED = "coalesced"
    OVER_LIMIT = "over_limit"
    OUTSIDE_WINDOW = "outside_window"
    START_DEADLINE = "start_deadline"
    OVERLAP = "overlap"
    BUFFER_FULL = "buffer_full"
    SUPERSEDED = "superseded"
    UNIQUE = "unique"
    STALE_TIME = "stale_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One nominal time that becomes a task now.

    The task is to start at ``run_at`` (the nominal time and its jitter), and not at all after
    ``start_by``. ``previous`` is the nominal time before: the run covers the data from it up to
    ``nominal``. ``lateness`` is how long after ``nominal`` the plan was made. ``from_buffer`` is
    true for a time that waited for an earlier run, ``cancels_previous`` if the unfinished runs of
    the schedule are to be cancelled first.
    """

    nominal: datetime
    previous: datetime | None
    run_at: datetime
    start_by: datetime | None
    lateness: timedelta
    from_buffer: bool = False
    cancels_previous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedTimes:
    """All nominal times from ``first`` to ``last``, which did not become runs.

    ``count`` is how many; a lower bound where ``exact`` is false.
    """

    first: datetime
    last: datetime
    count: int
    exact: bool
    reason: SkipReason

    @classmethod
    def one(cls, nominal: datetime, reason: SkipReason) -> "SkippedTimes":
        """The record of a single skipped time."""
        return cls(first=nominal, last=nominal, count=1, exact=True, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do for one schedule now, and ``state``, the schedule once that is stored.

    ``version`` is the version that was planned: store nothing if the schedule has another one by
    then. ``buffered`` are the due times that now wait for an earlier run.
    """

    version: int
    runs: tuple[PlannedRun, ...]
    buffered: tuple[datetime, ...]
    skipped: tuple[SkippedTimes, ...]
    state: ScheduleState

    @property
    def is_empty(self) -> bool:
        """True if no nominal time is run, buffered or skipped."""
        return not (self.runs or self.buffered or self.skipped)
