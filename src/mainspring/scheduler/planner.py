"""Turns the due times of schedules into tasks.

A planner plans for the partitions that it owns. It holds nothing while it thinks: it reads
schedules, plans them, and the store carries out a plan only if nobody changed the schedule since
and nobody owns the partition under a later epoch. So one of two planners simply finds its work
done, and one that dies in the middle leaves nothing that has to be cleared up.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

import msgspec

from mainspring.core.planning import is_current, planned, state_of, with_state
from mainspring.domain.errors import MainspringError, SetupError, Unavailable
from mainspring.domain.ids import partition_of
from mainspring.domain.schedule import SkipReason, recompute
from mainspring.domain.values import clip_text
from mainspring.ports.clock import Chance, Clock, IdSource
from mainspring.ports.coordination import Fence
from mainspring.ports.schedules import (
    Committed,
    EndedRun,
    NewTick,
    SchedulePlan,
    ScheduleStore,
    StoredSchedule,
    TickOutcome,
)
from mainspring.ports.store import Hint, Wakeups
from mainspring.scheduler.loop import Interval
from mainspring.scheduler.waiting import first_of

_LOGGER: Final = logging.getLogger("mainspring.scheduler")

POLL_SECONDS: Final = 1.0
"""The longest pause: how soon the end of a run is noticed, and a change whose hint was lost."""

NOTE_SECONDS: Final = 5.0
"""How often a planner notes that it has been at work."""

BATCH: Final = 500
"""Schedules that are planned in one step and stored by one statement."""

_READ: Final = 4 * BATCH
_SWEEP: Final = 2000
_ROUNDS: Final = 200
_PROBLEM_BYTES: Final = 1000
_RETRY: Final = Interval(
    seconds=0.0, jitter=0.1, first_pause_seconds=5.0, longest_pause_seconds=3600.0
)
_OUTAGE: Final = Interval(seconds=0.0)
_ALARMING: Final = frozenset(
    {
        SkipReason.MISSED.value,
        SkipReason.COALESCED.value,
        SkipReason.OVER_LIMIT.value,
        SkipReason.OUTSIDE_WINDOW.value,
        SkipReason.START_DEADLINE.value,
    }
)


class MissedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Nominal times that did not run, or ran late; what an alert is told."""

    schedule: str
    first_at: datetime
    last_at: datetime
    count: int
    reason: str
    """A reason for skipping, or `late`."""

    lateness_seconds: float


Alert = Callable[[MissedRuns], None]


class PlannedStore(ScheduleStore, Protocol):
    """What the planner needs of the store."""

    def wakeups(self) -> Wakeups:
        """Return a new listener for hints."""
        ...


class Owned(Protocol):
    """What the planner needs of `scheduler.ownership.Ownership`."""

    def fence(self) -> Fence:
        """Return what may be planned for now."""
        ...

    def refuse(self, partitions: Collection[int]) -> None:
        """Take note that the store knows a later epoch of these."""
        ...

    async def gained(self) -> None:
        """Return when there is more to plan for."""
        ...


class Planner:
    """`core.service.Service`: plans schedules at their times.

    `alert` is told of runs that were missed or late; they are logged in any case. Without
    `ownership` it plans for every partition, beside whoever else does.
    """

    name = "planner"

    def __init__(
        self,
        store: PlannedStore,
        clock: Clock,
        chance: Chance,
        ids: IdSource,
        *,
        alert: Alert | None = None,
        ownership: Owned | None = None,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._clock = clock
        self._chance = chance
        self._ids = ids
        self._alert = alert
        self._has_checked_zones = False
        self._noted_at: float | None = None
        self.next_seconds: float | None = None
        """Seconds from the last round to the next time of any schedule; None: there is none."""

    async def run(self) -> None:
        """Plan until cancelled: exactly when the next time comes, and at once after a change."""
        wakeups = self._store.wakeups()
        failures = 0
        try:
            while True:
                try:
                    await self.run_once()
                except Unavailable as error:
                    failures += 1
                    if failures == 1:
                        _LOGGER.warning("planner waits for the task store: %s", error)
                    await self._clock.sleep(_OUTAGE.pause(failures, self._chance.random()))
                    continue
                if failures:
                    _LOGGER.info("planner goes on after %d failed rounds", failures)
                failures = 0
                coming = self.next_seconds
                await self._rest(wakeups, POLL_SECONDS if coming is None else coming)
        finally:
            await wakeups.close()

    async def run_once(self) -> int:
        """Plan all that is due by now; returns the number of steps that were stored."""
        if not self._has_checked_zones:
            await self._recompute_zones()
            self._has_checked_zones = True
        if _is_empty(self._fence()):
            self.next_seconds = None
            return 0
        await self._expire()
        count = await self._take_ends() + await self._plan_due()
        await self._note_round()
        return count

    async def _note_round(self) -> None:
        """Let everybody see that planning goes on; seldom, because it is a write."""
        now = self._clock.monotonic()
        if self._noted_at is None or now - self._noted_at >= NOTE_SECONDS:
            await self._store.note_round()
            self._noted_at = now

    async def _rest(self, wakeups: Wakeups, seconds: float) -> None:
        """Wait for the next time, or for a change; other hints are not for the planner."""
        until = self._clock.monotonic() + min(seconds, POLL_SECONDS)
        if self._ownership is None:
            await self._hear(wakeups, until)
        else:
            await first_of(self._hear(wakeups, until), self._ownership.gained())

    async def _hear(self, wakeups: Wakeups, until: float) -> None:
        while (left := until - self._clock.monotonic()) > 0:
            if Hint.SCHEDULE in await wakeups.wait(left):
                return

    def _fence(self) -> Fence | None:
        return None if self._ownership is None else self._ownership.fence()

    async def _plan_due(self) -> int:
        count = 0
        for _ in range(_ROUNDS):
            due = await self._store.due_schedules(_READ, self._fence())
            self.next_seconds = due.next_seconds
            if not due.schedules:
                return count
            stored = await self._carry_out(due.schedules, due.now, {})
            count += stored
            if not stored:
                # Another planner is at it, and will be done before this one has rested.
                self.next_seconds = None
                return count
        self.next_seconds = 0.0
        return count

    async def _take_ends(self) -> int:
        """Look which runs have ended, and let their schedules know."""
        count = 0
        cursor: tuple[UUID, datetime] | None = None
        while True:
            sweep = await self._store.ended_runs(_SWEEP, cursor, self._fence())
            plain = [run for run in sweep.ended if not run.matters]
            if plain:
                await self._store.close_runs(plain, self._fence())
            ends: dict[UUID, list[EndedRun]] = {}
            for run in sweep.ended:
                if run.matters:
                    ends.setdefault(run.schedule_id, []).append(run)
            if ends:
                count += await self._learn(ends)
            cursor = sweep.cursor
            if cursor is None:
                return count

    async def _learn(self, ends: dict[UUID, list[EndedRun]]) -> int:
        """Count failures in a row, which may pause a schedule."""
        schedules = await self._store.load_schedules(list(ends))
        gone = ends.keys() - {one.id for one in schedules}
        if gone:
            lost = [run for one in gone for run in ends[one]]
            await self._store.close_runs(lost, self._fence())
        return await self._carry_out(schedules, await self._store.store_time(), ends)

    async def _carry_out(
        self,
        schedules: Sequence[StoredSchedule],
        now: datetime,
        ends: dict[UUID, list[EndedRun]],
    ) -> int:
        """Plan and store, and return how many were; the store works on one batch while the next
        one is planned.
        """
        batches = [schedules[at : at + BATCH] for at in range(0, len(schedules), BATCH)]
        steps = [self._step(batch, now, ends) for batch in batches]
        answers = await asyncio.gather(*steps, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return sum(answer for answer in answers if isinstance(answer, int))

    async def _step(
        self,
        schedules: Sequence[StoredSchedule],
        now: datetime,
        ends: dict[UUID, list[EndedRun]],
    ) -> int:
        """Plan and store a batch; what is wrong with one schedule does not touch the others."""
        plans: list[SchedulePlan] = []
        for schedule in schedules:
            try:
                plans.append(planned(schedule, now, self._ids, ends.get(schedule.id, ())))
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                await self._report(schedule, error)
        answers = await self._commit(plans)
        for plan, answer in zip(plans, answers, strict=True):
            if answer.is_stored:
                self._tell(plan)
        return sum(answer.is_stored for answer in answers) + len(schedules) - len(plans)

    async def _commit(self, plans: Sequence[SchedulePlan]) -> list[Committed]:
        fence = self._fence()
        if _is_empty(fence):
            return [Committed(is_stored=False) for _ in plans]
        try:
            answers = await self._store.commit_plans(plans, fence)
        except (Unavailable, SetupError):
            raise
        except MainspringError as error:
            if len(plans) == 1:
                await self._report(plans[0].schedule, error)
                return [Committed(is_stored=False)]
        else:
            pairs = zip(plans, answers, strict=True)
            stale = {partition_of(plan.schedule.id) for plan, one in pairs if one.is_stale}
            if stale and self._ownership is not None:
                self._ownership.refuse(stale)
            return answers
        # One of them is refused by the store, and only one by one shows which.
        return [(await self._commit([plan]))[0] for plan in plans]

    async def _report(self, schedule: StoredSchedule, error: Exception) -> None:
        text = clip_text(f"{type(error).__name__}: {error}", _PROBLEM_BYTES)
        seconds = _RETRY.pause(schedule.problem_count + 1, self._chance.random())
        _LOGGER.error(
            "schedule %s cannot be planned and is tried again in %.0f s: %s",
            schedule.name,
            seconds,
            text,
        )
        await self._store.report_problem(schedule, text, seconds, self._fence())

    async def _expire(self) -> None:
        for run in await self._store.expire_starts(BATCH, self._fence()):
            self._warn(
                MissedRuns(
                    schedule=run.schedule,
                    first_at=run.nominal_at,
                    last_at=run.nominal_at,
                    count=1,
                    reason=SkipReason.START_DEADLINE.value,
                    lateness_seconds=0.0,
                )
            )

    async def _recompute_zones(self) -> None:
        """Compute the next times anew where the installed zone data has changed."""
        for timezone, known in await self._store.zone_prints():
            if is_current(timezone, known):
                continue
            moved = 0
            while schedules := await self._store.schedules_of_zone(timezone, known, BATCH):
                now = await self._store.store_time()
                done = [await self._recompute(schedule, now) for schedule in schedules]
                moved += sum(done)
                if not any(done):
                    break
            _LOGGER.info("zone data of %s changed; %d schedules were recomputed", timezone, moved)

    async def _recompute(self, schedule: StoredSchedule, now: datetime) -> bool:
        try:
            changed = with_state(schedule, recompute(state_of(schedule), now), now)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            await self._report(schedule, error)
            return False
        if changed.zone_print == schedule.zone_print:
            return False
        return await self._store.replace_schedule(changed)

    def _tell(self, plan: SchedulePlan) -> None:
        for tick in plan.ticks:
            is_missed = tick.outcome is TickOutcome.SKIPPED and tick.reason in _ALARMING
            if is_missed or tick.is_late:
                self._warn(_missed(plan.schedule.name, tick))

    def _warn(self, missed: MissedRuns) -> None:
        _LOGGER.warning(
            "schedule.missed",
            extra={
                "schedule": missed.schedule,
                "first_at": missed.first_at.isoformat(),
                "last_at": missed.last_at.isoformat(),
                "count": missed.count,
                "reason": missed.reason,
                "lateness_seconds": missed.lateness_seconds,
            },
        )
        if self._alert is None:
            return
        try:
            self._alert(missed)
        except Exception:
            _LOGGER.exception("the alert for missed runs failed")


def _is_empty(fence: Fence | None) -> bool:
    return fence is not None and not fence.epochs


def _missed(schedule: str, tick: NewTick) -> MissedRuns:
    return MissedRuns(
        schedule=schedule,
        first_at=tick.nominal_at,
        last_at=tick.until_at or tick.nominal_at,
        count=tick.count,
        reason="late" if tick.reason is None else tick.reason,
        lateness_seconds=tick.lateness_seconds,
    )
