"""The store of schedules: what they are, and what became of their nominal times.

The rules of `ports.store` hold here, too. A schedule has a revision, which every change of it
raises; whoever changes one says which revision that is based on, and a change based on an older
one is refused and alters nothing. So two planners, or a planner and a person, cannot undo each
other's work, and none of them holds a lock while it thinks.

A schedule belongs to the partition that its id carries. What a scheduler writes comes with a fence:
the epochs under which it owns partitions. Where the store knows a later epoch nothing is changed.
No fence (None) means every partition, and no epoch: so people write.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

import msgspec

from mainspring.domain.retry import Backoff
from mainspring.domain.schedule.state import ScheduleStatus
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    NewTask,
)
from mainspring.domain.webhooks import Webhook
from mainspring.ports.coordination import Epochs, Fence

DEFAULT_TASK_PRIORITY: Final = 5


class TaskTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What each run of a schedule submits."""

    task_type: str
    payload: str = "{}"
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_TASK_PRIORITY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    backoff: Backoff = Backoff()
    group_key: str | None = None
    unique_key: str | None = None
    webhook: Webhook | None = None


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored. `spec` is text, so that one that cannot be read is still shown.

    The fields from `status` to `consecutive_failures` are those of `domain.schedule.ScheduleState`.
    """

    id: UUID
    name: str
    template: TaskTemplate
    spec: str
    """JSON text of `domain.schedule.dump_spec`."""

    timezone: str = "UTC"
    zone_print: str = ""
    """Which zone data the next time was computed under."""

    status: ScheduleStatus = ScheduleStatus.ACTIVE
    note: str = ""
    version: int = 1
    cursor_version: int = 1
    next_nominal: datetime | None = None
    last_nominal: datetime | None = None
    runs: int = 0
    buffered: tuple[datetime, ...] = ()
    consecutive_failures: int = 0
    plan_at: datetime | None = None
    """When the planner looks at it next; None: when something happens to it."""

    revision: int = 1
    problem: str = ""
    """Why planning failed the last time; empty when it did not."""

    problem_count: int = 0
    """How often planning has failed in a row."""

    unfinished: int = 0
    """Runs that are live; counted when it is read."""

    counts: dict[str, int] = {}
    """`late`, and `skipped:<reason>` for each reason, since it was made."""

    created_at: datetime | None = None
    """Since when it has times; None for a new one: since it is stored."""

    updated_at: datetime | None = None


class TickOutcome(StrEnum):
    """What became of a nominal time."""

    TASK = "task"
    """It became a task."""

    SKIPPED = "skipped"
    """It did not, for the reason given."""

    BUFFERED = "buffered"
    """It waits for an earlier run."""


class TickKind(StrEnum):
    """Who asked for a run."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"


class NewTick(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on one nominal time; of skipped times that follow each other, on all of them."""

    nominal_at: datetime
    outcome: TickOutcome
    kind: TickKind = TickKind.SCHEDULED
    reason: str | None = None
    until_at: datetime | None = None
    """The last of the skipped times."""

    count: int = 1
    is_exact: bool = True
    """False: there were more than `count`."""

    lateness_seconds: float = 0.0
    """How long after its time it was decided."""

    is_late: bool = False
    """It counts as late."""

    start_by: datetime | None = None
    """The run is dropped if it has not started by then."""

    task: NewTask | None = None


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a schedule whose task is not live any more."""

    schedule_id: UUID
    nominal_at: datetime
    status: TaskStatus | None
    """None: the task is gone from the history, too."""

    ended_at: datetime | None
    matters: bool
    """It changes the failures in a row of its schedule."""


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A step of one schedule: its new state, based on `schedule.revision`, and its ticks.

    The definition of the schedule (name, template, spec) does not change in a step.
    """

    schedule: StoredSchedule
    ticks: tuple[NewTick, ...] = ()
    cancels_previous: bool = False
    """The unfinished runs are cancelled: waiting ones for good, running ones are told."""

    ended: tuple[EndedRun, ...] = ()
    """Runs whose end this step has taken into account."""


class Committed(msgspec.Struct, frozen=True):
    """What became of a plan."""

    is_stored: bool
    """False: the schedule has another revision by now, and nothing was changed."""

    started: tuple[datetime, ...] = ()
    """The nominal times that became tasks; without those that had a tick before."""

    is_stale: bool = False
    """It was not stored because the fence does not hold for its partition."""

    met: tuple[datetime, ...] = ()
    """The nominal times that became no task because a live one has their unique key."""


class DueSchedules(msgspec.Struct, frozen=True):
    """Schedules to plan, the longest due first."""

    schedules: list[StoredSchedule]
    now: datetime
    next_seconds: float | None = None
    """Seconds until the next one, if there was room for all that are due."""


class Sweep(msgspec.Struct, frozen=True):
    """A part of the runs that were not known to have ended."""

    ended: list[EndedRun]
    cursor: tuple[UUID, datetime] | None = None
    """Where to go on; None: this was the last part."""


class ExpiredRun(msgspec.Struct, frozen=True):
    """A run that was dropped because it had not started by its deadline."""

    schedule: str
    nominal_at: datetime


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One entry in the history of a schedule."""

    nominal_at: datetime
    outcome: TickOutcome
    kind: TickKind
    reason: str | None = None
    until_at: datetime | None = None
    count: int = 1
    is_exact: bool = True
    lateness_seconds: float = 0.0
    decided_at: datetime
    task_id: UUID | None = None
    """Its task; of a time skipped as `unique`, the live task that had its unique key."""

    task_status: str | None = None
    """The state of its task, as far as it is known."""


class ScheduleBook(Protocol):
    """What people do with schedules."""

    async def store_time(self) -> datetime:
        """Return the store's time: what is due, and what has passed, is decided by it."""
        ...

    async def create_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a new schedule; False, and nothing is changed, when the name is taken."""
        ...

    async def replace_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if it still has `schedule.revision`; False if it does not."""
        ...

    async def get_schedule(self, name: str) -> StoredSchedule | None:
        """Return a schedule by its name."""
        ...

    async def list_schedules(self, limit: int, after: str = "") -> list[StoredSchedule]:
        """Return schedules in the order of their names, those after a name."""
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule; it makes no tick any more and its name is free. False: none such.

        Runs that exist go on. Its ticks are removed by `forget_ticks`.
        """
        ...

    async def commit_plans(self, plans: Sequence[SchedulePlan]) -> list[Committed]:
        """Carry out each plan as a whole or not at all, and answer in order.

        For each plan the revision is compared, the ticks and their tasks are stored, and the new
        state is saved, in one transaction. A tick is unique by schedule and nominal time: where
        one exists already nothing is stored and no task made, except that a buffered time becomes
        what was decided on it, and a skipped one may still be backfilled. Where a live task has the
        unique key of a new one, the tick is skipped (`unique`) and has the id of the live one. A
        schedule that someone else is just changing is not waited for, nor is a unique key in a
        transaction that is still open.
        """
        ...

    async def ticks(
        self, schedule_id: UUID, limit: int, before: datetime | None = None
    ) -> list[Tick]:
        """Return the ticks of a schedule, newest nominal time first."""
        ...


class ScheduleStore(ScheduleBook, Epochs, Protocol):
    """Schedules and their ticks, with what the planner needs beside.

    A fence limits what is read to its partitions, whatever their epoch.
    """

    async def due_schedules(self, limit: int, fence: Fence | None = None) -> DueSchedules:
        """Return active schedules whose time to plan has come, and those with buffered times and
        no run that is live, with the number of their live runs.
        """
        ...

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        """Carry out plans as above, each only where the fence holds."""
        ...

    async def load_schedules(self, ids: Sequence[UUID]) -> list[StoredSchedule]:
        """Return those of the schedules that exist, with the number of their live runs."""
        ...

    async def report_problem(
        self, schedule: StoredSchedule, problem: str, seconds: float, fence: Fence | None = None
    ) -> None:
        """Note why a schedule could not be planned, and let it be tried again after a while."""
        ...

    async def ended_runs(
        self, limit: int, after: tuple[UUID, datetime] | None = None, fence: Fence | None = None
    ) -> Sweep:
        """Look at some of the runs that are not known to have ended; return those that have."""
        ...

    async def close_runs(self, runs: Sequence[EndedRun], fence: Fence | None = None) -> None:
        """Note that runs have ended, where that changes nothing else."""
        ...

    async def expire_starts(self, limit: int, fence: Fence | None = None) -> list[ExpiredRun]:
        """Cancel runs that have not started by their deadline; their nominal times are skipped
        (`start_deadline`). Runs that did start have no such deadline any more.
        """
        ...

    async def zone_prints(self) -> list[tuple[str, str]]:
        """Return every pair of zone and zone print that a next time was computed under."""
        ...

    async def schedules_of_zone(
        self, timezone: str, zone_print: str, limit: int
    ) -> list[StoredSchedule]:
        """Return active schedules whose next time was computed under this zone print."""
        ...

    async def note_round(self) -> None:
        """Note that a planner has looked at what is due, and is done with it, by now."""
        ...

    async def last_round(self) -> datetime | None:
        """Return the last time that was noted with `note_round`; None: there is none."""
        ...

    async def forget_ticks(self, keep_days: float, limit: int) -> int:
        """Remove ticks whose nominal time is older than that and whose run has ended, and those
        of deleted schedules; returns how many.
        """
        ...
