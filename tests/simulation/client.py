"""A client: submits, cancels, moves, replays, pauses, and remembers what it was told."""

import random
from dataclasses import dataclass, field
from uuid import UUID

from mainspring.core.group_commit import GroupCommit
from mainspring.domain.errors import Unavailable
from mainspring.domain.ids import deciding_key, make_id, random_bits_needed
from mainspring.domain.task import CancelState, NewTask
from mainspring.ports.store import DeadLetterFilter, TaskFilter
from simulation.audit import GROUPED, Audit, S
from simulation.network import START, Connection, Process

QUEUES = ("a", "b")
BRANCHES = ("a", "b@gpu")
"""Where tasks wait: those of one queue need a label, which all workers offer."""

GROUPS = ("", "g", "h")
GROUPED_SHARE = 0.2
TASK_TYPES = ("mail", "report")


@dataclass(eq=False)
class Client:
    """One client process."""

    process: Process
    store: Connection
    audit: Audit
    told_cancelling: dict[UUID, float]
    may_pause: bool
    known: list[UUID] = field(default_factory=list)
    asked: set[UUID] = field(default_factory=set)
    acknowledged: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = self.process.chance
        self.commits = GroupCommit(
            self.store,  # type: ignore[arg-type]  # a Store by __getattr__
            self.process,
            timeout_seconds=8.0,
            batch_tasks=5,
        )

    async def run(self, until: float) -> None:
        actions = (
            [self.submit_one] * 10
            + [self.submit_many] * 2
            + [self.cancel] * 4
            + [self.reschedule] * 2
            + [self.replay, self.discard, self.read]
            + [self.look] * 2
            + [self.pause] * self.may_pause
        )
        while self.process.monotonic() < until:
            await self.process.sleep(self.chance.expovariate(1.5))
            try:
                await self.chance.choice(actions)()
            except Unavailable:
                continue

    def task(self) -> NewTask:
        chance = self.chance
        key = fingerprint = None
        if chance.random() < 0.25:
            key, fingerprint = f"key-{chance.randrange(8)}", chance.choice("xxxy")
        group_key = chance.choice(GROUPS) if chance.random() < GROUPED_SHARE else None
        now = int(self.process.now().timestamp() * 1000)
        when = chance.random()
        deciding = deciding_key(group_key, None, key)
        task = NewTask(
            id=make_id(now, chance.getrandbits(random_bits_needed()), deciding),
            task_type=chance.choice(TASK_TYPES),
            queue=chance.choice(BRANCHES) if group_key is None else GROUPED,
            group_key=group_key or None,
            priority=chance.randrange(11),
            delay_seconds=chance.uniform(0, 20) if when < 0.2 else 0.0,
            scheduled_at=self.process.now() if when > 0.9 else None,
            max_retries=chance.randrange(4),
            key=key,
            fingerprint=fingerprint,
        )
        self.asked.add(task.id)
        return task

    async def submit_one(self) -> None:
        answer = await self.commits.submit(self.task(), first=True)
        self.acknowledge([answer.id])

    async def submit_many(self) -> None:
        tasks = [self.task() for _ in range(self.chance.randrange(1, 9))]
        answers = await self.commits.submit_many(tasks)
        self.acknowledge([answer.id for answer in answers if not isinstance(answer, BaseException)])

    def acknowledge(self, ids: list[UUID]) -> None:
        self.acknowledged.update(ids)
        self.known += ids

    async def cancel(self) -> None:
        if not self.known:
            return
        task_id = self.chance.choice(self.known)
        (state,) = await self.store.cancel([task_id], "stop")
        record = self.audit.records[task_id]
        if state is CancelState.CANCELLED:
            kept = record.status is S.CANCELLED
            self.audit.check(kept, "I18", task_id, f"was told cancelled and is {record.status}")
        elif state is CancelState.FINISHED:
            self.audit.check(record.has_finished, "I20", task_id, "was told finished")
        elif state is CancelState.CANCELLING:
            self.told_cancelling[task_id] = self.process.monotonic()
        else:
            self.audit.check(False, "I1", task_id, "was told unknown")

    async def reschedule(self) -> None:
        if self.known:
            delay = self.chance.choice((None, self.chance.uniform(-5, 10)))
            at = (
                None
                if delay is None
                else START.fromtimestamp(
                    round(START.timestamp() + self.process.monotonic() + delay, 3), START.tzinfo
                )
            )
            await self.store.reschedule(self.chance.choice(self.known), at)

    async def replay(self) -> None:
        await self.store.replay(DeadLetterFilter(), 2, None)

    async def discard(self) -> None:
        await self.store.discard(DeadLetterFilter(task_type="mail"), 1, "old")

    async def pause(self) -> None:
        queue = self.chance.choice(QUEUES)
        try:
            await self.store.pause(queue)
            await self.process.sleep(self.chance.uniform(0, 5))
        finally:
            while not self.process.is_dead:
                try:
                    await self.store.resume(queue)
                except Unavailable:
                    await self.process.sleep(0.5)
                else:
                    break

    async def look(self) -> None:
        """What is answered was true at some moment between the question and the answer."""
        if not self.known:
            return
        task_id = self.chance.choice(self.known)
        states = self.audit.records[task_id].states
        before = len(states) - 1
        task = await self.store.get(task_id)
        shown = None if task is None else (task.status, task.attempt_count)
        self.audit.check(shown in states[before:], "I31", task_id, f"is shown as {shown}")
        self.audit.counts["look"] += 1

    async def read(self) -> None:
        page = await self.store.page(TaskFilter(), 50, None)
        ids = [task.task_id for task in page.tasks]
        self.audit.check(len(ids) == len(set(ids)), "I33", ids, "a task was listed twice")


def make_chance(chance: random.Random) -> random.Random:
    """Return a generator of its own for a part, so that parts do not disturb each other."""
    return random.Random(chance.getrandbits(64))
