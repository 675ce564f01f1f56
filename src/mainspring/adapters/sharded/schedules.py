"""Schedules: each with its ticks and its tasks in the shard that its name decides."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import count
from uuid import UUID

from mainspring.adapters.sharded.division import answered
from mainspring.adapters.sharded.part import ShardedPart
from mainspring.domain.errors import InvalidValue
from mainspring.domain.ids import EPOCH, deciding_key, key_tail, partition_of
from mainspring.domain.namespaces import plain_key, plain_queue
from mainspring.domain.values import shown
from mainspring.ports.coordination import Fence, PartitionState
from mainspring.ports.schedules import (
    Committed,
    DueSchedules,
    EndedRun,
    ExpiredRun,
    SchedulePlan,
    StoredSchedule,
    Sweep,
    Tick,
)
from mainspring.ports.whole import WholeStore


class ShardedSchedules(ShardedPart):
    """`ports.schedules.ScheduleStore`, for people: planners work on the parts."""

    async def store_time(self) -> datetime:
        """Return the time of the shard that is behind the others: nothing is early by it."""
        return min((await self._division.wherever(lambda store: store.store_time())).values())

    async def create_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a new schedule; raises `InvalidValue` if its runs could not be where its group
        is.
        """
        check_place(schedule)
        return await self._division.named(
            schedule.name, lambda store: store.create_schedule(schedule)
        )

    async def replace_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if nobody changed it since; raises as `create_schedule` does."""
        check_place(schedule)
        return await self._division.one(
            schedule.id, lambda store: store.replace_schedule(schedule), bool
        )

    async def get_schedule(self, name: str) -> StoredSchedule | None:
        """Return a schedule by its name."""
        return await self._division.look(
            UUID(int=key_tail(name)),
            lambda store: store.get_schedule(name),
            lambda found: found is not None,
        )

    async def list_schedules(self, limit: int, after: str = "") -> list[StoredSchedule]:
        """Return schedules in the order of their names."""
        answers = await self._division.wherever(lambda store: store.list_schedules(limit, after))
        owners = self._division.map.owners
        found: dict[str, StoredSchedule] = {}
        for number, schedules in answers.items():
            for schedule in schedules:
                # While partitions move, a schedule of theirs may be in both shards for a moment.
                if schedule.name not in found or owners[partition_of(schedule.id)] == number:
                    found[schedule.name] = schedule
        return [found[name] for name in sorted(found)[:limit]]

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule."""
        return await self._division.named(name, lambda store: store.delete_schedule(name), bool)

    async def commit_plans(
        self, plans: Sequence[SchedulePlan], fence: Fence | None = None
    ) -> list[Committed]:
        """Carry out each plan as a whole or not at all."""
        return await self._division.routed(
            plans,
            lambda plan: plan.schedule.id,
            lambda store, part: store.commit_plans(part, fence),
            lambda committed: committed.is_stored,
        )

    async def ticks(
        self, schedule_id: UUID, limit: int, before: datetime | None = None
    ) -> list[Tick]:
        """Return the ticks of a schedule, newest first."""
        return await self._division.look(
            schedule_id, lambda store: store.ticks(schedule_id, limit, before), bool
        )

    async def due_schedules(self, limit: int, fence: Fence | None = None) -> DueSchedules:
        """Return schedules to plan, the longest due first."""
        answers = await self._division.wherever(lambda store: store.due_schedules(limit, fence))
        due = [schedule for one in answers.values() for schedule in one.schedules]
        now = min(one.now for one in answers.values())
        due.sort(key=lambda schedule: schedule.plan_at or now)
        nexts = [one.next_seconds for one in answers.values() if one.next_seconds is not None]
        is_complete = len(due) < limit
        return DueSchedules(due[:limit], now, min(nexts, default=None) if is_complete else None)

    async def load_schedules(self, ids: Sequence[UUID]) -> list[StoredSchedule]:
        """Return those of the schedules that exist."""
        answers = await self._division.among(
            ids,
            lambda store, part: store.load_schedules(part),
            lambda found, asked: {*asked}.difference(schedule.id for schedule in found),
        )
        found = answered(dict(enumerate(answers)))
        return [schedule for schedules in found.values() for schedule in schedules]

    async def report_problem(
        self, schedule: StoredSchedule, problem: str, seconds: float, fence: Fence | None = None
    ) -> None:
        """Note why a schedule could not be planned."""
        await self._division.one(
            schedule.id, lambda store: store.report_problem(schedule, problem, seconds, fence)
        )

    async def ended_runs(
        self, limit: int, after: tuple[UUID, datetime] | None = None, fence: Fence | None = None
    ) -> Sweep:
        """Look at some of the runs that are not known to have ended, shard after shard."""
        division = self._division
        number = 0 if after is None else division.atlas.number_of(after[0])
        sweep = await division.shards[number].ask(
            lambda store: store.ended_runs(limit, after, fence)
        )
        owners = division.map.owners
        later = [one for one in owners if number < one < len(division.shards)]
        if sweep.cursor is not None or not later:
            return sweep
        # The lowest id that leads to the next shard that keeps anything.
        return Sweep(sweep.ended, (UUID(int=owners.index(min(later))), EPOCH))

    async def close_runs(self, runs: Sequence[EndedRun], fence: Fence | None = None) -> None:
        """Note that runs have ended."""
        groups: dict[int, list[EndedRun]] = {}
        for run in runs:
            groups.setdefault(self._division.atlas.number_of(run.schedule_id), []).append(run)
        await self._division.wherever_of(
            groups, lambda number, store: store.close_runs(groups[number], fence)
        )

    async def expire_starts(self, limit: int, fence: Fence | None = None) -> list[ExpiredRun]:
        """Cancel runs that have not started by their deadline."""
        return await self._division.in_turn(
            limit, lambda store, left: store.expire_starts(left, fence)
        )

    async def zone_prints(self) -> list[tuple[str, str]]:
        """Return every pair of zone and zone print in use."""
        answers = await self._division.wherever(lambda store: store.zone_prints())
        return sorted({pair for pairs in answers.values() for pair in pairs})

    async def schedules_of_zone(
        self, timezone: str, zone_print: str, limit: int
    ) -> list[StoredSchedule]:
        """Return active schedules computed under a zone print."""
        answers = await self._division.wherever(
            lambda store: store.schedules_of_zone(timezone, zone_print, limit)
        )
        return [schedule for schedules in answers.values() for schedule in schedules][:limit]

    async def note_round(self) -> None:
        """Note that a planner is done with every shard by now."""
        await self._division.wherever(lambda store: store.note_round())

    async def last_round(self) -> datetime | None:
        """Return the last time that was noted in the shard where that was longest ago."""
        answers = await self._division.wherever(lambda store: store.last_round())
        return min((one for one in answers.values() if one is not None), default=None)

    async def forget_ticks(self, keep_days: float, limit: int) -> int:
        """Remove old ticks."""

        async def forget(store: WholeStore, left: int) -> list[None]:
            return [None] * await store.forget_ticks(keep_days, left)

        return len(await self._division.in_turn(limit, forget))


def check_place(schedule: StoredSchedule) -> None:
    """Refuse a schedule whose runs could not be in the partition of their group or unique key.

    The runs are stored together with their ticks, in the partition that the name of the schedule
    decides; a limit holds, and a unique key is unique, within the shard of a partition.
    """
    template = schedule.template
    key = deciding_key(template.group_key, template.unique_key, None)
    if key is None or partition_of(UUID(int=key_tail(key))) == partition_of(schedule.id):
        return
    field = "unique_key" if template.group_key is None else "group_key"
    fitting = plain_queue(name_beside(schedule.name, key))
    raise InvalidValue(
        f"{field} is {shown(plain_key(key))}, whose tasks are in another partition than schedule "
        f"{shown(plain_queue(schedule.name))}, and where there are several databases they have to "
        f"be in the same one; name the schedule {fitting!r}, for example, or leave {field} out",
        field=field,
    )


def name_beside(name: str, key: str) -> str:
    """Return a name like this one for a schedule in the partition of a key."""
    wanted = partition_of(UUID(int=key_tail(key)))
    names = (f"{name}-{number}" for number in count(2))
    return next(one for one in names if partition_of(UUID(int=key_tail(one))) == wanted)


class ShardedEpochs(ShardedPart):
    """`ports.coordination.Epochs`: the epoch of a partition is in the shard that keeps it, where
    the plans are stored that it fences. Partitions of a lost shard have no owner meanwhile.
    """

    async def raise_epochs(self, partitions: Collection[int], owner: str) -> dict[int, int]:
        """Make someone the owner of partitions; those of lost shards are left out, and those that
        are just moving.
        """
        wanted = {*partitions}.difference(self._division.atlas.moving)
        owners = self._division.map.owners
        answers = await self._division.wherever_of(
            {owners[one] for one in wanted},
            lambda number, store: store.raise_epochs(
                [one for one in sorted(wanted) if owners[one] == number], owner
            ),
        )
        return {one: epoch for part in answers.values() for one, epoch in part.items()}

    async def give_up_epochs(self, epochs: Mapping[int, int]) -> None:
        """Note that partitions have no owner any more."""
        owners = self._division.map.owners
        await self._division.wherever_of(
            {owners[one] for one in epochs},
            lambda number, store: store.give_up_epochs(
                {one: epoch for one, epoch in epochs.items() if owners[one] == number}
            ),
        )

    async def partition_states(self) -> list[PartitionState]:
        """Return the partitions of the shards that answer, with their owners."""
        owners = self._division.map.owners
        answers = await self._division.wherever(lambda store: store.partition_states())
        found = [
            state
            for number, states in answers.items()
            for state in states
            if owners[state.partition] == number
        ]
        return sorted(found, key=lambda state: state.partition)
