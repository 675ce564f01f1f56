"""What the memory store keeps, and the steps between its tables.

As in PostgreSQL a task is in exactly one of three places: live, dead letters or history. Every
change of a status goes through `move`, which asks `domain.status`, and every write of an owner
through `held`, which compares the fencing token.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from uuid import UUID

from mainspring.adapters.memory.groups import Gates
from mainspring.adapters.memory.row import Row
from mainspring.adapters.memory.waiting import Waiting
from mainspring.adapters.memory.wakeups import Board
from mainspring.adapters.memory.webhooks import delivery_of
from mainspring.domain.limits import QueueLimits
from mainspring.domain.placement import base_of
from mainspring.domain.priority import LIMIT_SECONDS
from mainspring.domain.status import LIVE, WAITING, TaskStatus, Transition, allows
from mainspring.domain.task import LeaseRef
from mainspring.domain.webhooks import Webhook
from mainspring.ports.clock import Clock
from mainspring.ports.hooks import Hooks, NoHooks
from mainspring.ports.store import Hint
from mainspring.ports.workers import WorkerState


@dataclass(slots=True, frozen=True)
class UsedKey:
    """An idempotency key and the task that was made under it."""

    id: UUID
    fingerprint: str | None
    used_at: datetime


class Tables:
    """The rows and their indexes."""

    def __init__(
        self, clock: Clock, *, hooks: Hooks | None = None, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self.clock = clock
        self.hooks: Hooks = NoHooks() if hooks is None else hooks
        self.board = Board(clock)
        self.live: dict[UUID, Row] = {}
        self.dead: dict[UUID, Row] = {}
        self.history: dict[UUID, Row] = {}
        self.ids: list[UUID] = []
        self.keys: dict[str, UsedKey] = {}
        self.unique: dict[tuple[str, str], UUID] = {}
        """The live task of each group and unique key."""

        self.webhooks: dict[UUID, Webhook] = {}
        self.queues: dict[str, bool] = {}
        self.limits: dict[str, QueueLimits] = {}
        self.workers: dict[str, WorkerState] = {}
        self.months: set[str] = set()
        self.waiting = Waiting(limit_seconds)
        self.gates = Gates()
        self._expiries: list[tuple[datetime, int, Row]] = []

    def now(self) -> datetime:
        """Return the store's time."""
        return self.clock.now()

    def find(self, task_id: UUID) -> Row | None:
        """Return the row of a task wherever it is."""
        return self.live.get(task_id) or self.dead.get(task_id) or self.history.get(task_id)

    def held(self, task_id: UUID, fencing_token: int) -> Row | None:
        """Return the row of a task if the token still owns it."""
        row = self.live.get(task_id)
        if row is None or row.status is not TaskStatus.RUNNING:
            return None
        return row if row.fencing_token == fencing_token else None

    def leases_of(self, worker_id: str) -> list[LeaseRef]:
        """Return the leases of a worker."""
        return [
            LeaseRef(row.id, row.fencing_token)
            for row in self.live.values()
            if row.status is TaskStatus.RUNNING and row.worker_id == worker_id
        ]

    def insert(self, row: Row) -> None:
        """Store a new task."""
        self._enliven(row)
        insort(self.ids, row.id)
        self.queues.setdefault(row.queue, False)
        self.queues.setdefault(base_of(row.queue), False)
        self._let_wait(row)

    def delete(self, row: Row) -> None:
        """Forget a finished task for good."""
        del self.history[row.id]
        del self.ids[bisect_left(self.ids, row.id)]

    def move(self, row: Row, transition: Transition, scheduled_at: datetime | None = None) -> bool:
        """Take a row through a transition, and to another time if one is given.

        Returns False, having changed nothing, when the table of transitions does not allow it.
        """
        if not allows(transition, row.status):
            return False
        if row.status in WAITING:
            self._waiting_place(row).remove(row)
        elif row.status is TaskStatus.FAILED:
            del self.dead[row.id]
            self._enliven(row)
        row.take(transition)
        if row.status is not TaskStatus.RUNNING:
            row.end_lease()
        if scheduled_at is not None:
            row.scheduled_at = scheduled_at
        if row.status in WAITING:
            self._let_wait(row)
        if row.status not in LIVE:
            self._finish(row)
        return True

    def hold(self, row: Row) -> None:
        """Let a waiting task stand in line; without a group key it is of the group ''."""
        self.waiting.remove(row)
        row.group_key = row.group_key or ""
        self.gates.add(row)

    def admit(self, row: Row) -> None:
        """Let a task that stands in line wait to be claimed."""
        self.gates.remove(row)
        row.is_admitted = True
        self.waiting.add(row)

    def lease(self, row: Row, worker_id: str, lease_seconds: float) -> None:
        """Give a waiting task to a worker."""
        now = self.now()
        self.waiting.remove(row)
        row.lease_to(worker_id, now, now + timedelta(seconds=lease_seconds))
        self._expect_expiry(row)

    def extend(self, row: Row, lease_seconds: float) -> None:
        """Let a lease run from now on."""
        row.lease_expires_at = self.now() + timedelta(seconds=lease_seconds)
        self._expect_expiry(row)

    def expired(self, limit: int) -> Iterator[Row]:
        """Yield running tasks whose lease is over, the longest first."""
        now = self.now()
        count = 0
        while count < limit and self._expiries and self._expiries[0][0] <= now:
            expires_at, _, row = heappop(self._expiries)
            if row.status is TaskStatus.RUNNING and row.lease_expires_at == expires_at:
                count += 1
                yield row

    def _let_wait(self, row: Row) -> None:
        (self.waiting if row.group_key is None else self.gates).add(row)

    def _waiting_place(self, row: Row) -> Waiting | Gates:
        return self.waiting if row.is_admitted else self.gates

    def _expect_expiry(self, row: Row) -> None:
        if row.lease_expires_at is not None:
            heappush(self._expiries, (row.lease_expires_at, row.id.int, row))

    def _enliven(self, row: Row) -> None:
        self.live[row.id] = row
        if row.unique is not None:
            self.unique[row.unique] = row.id

    def _finish(self, row: Row) -> None:
        row.completed_at = self.now()
        del self.live[row.id]
        if row.unique is not None:
            del self.unique[row.unique]
        place = self.dead if row.status is TaskStatus.FAILED else self.history
        place[row.id] = row
        if row.id in self.webhooks:
            self._tell(row)

    def _tell(self, row: Row) -> None:
        """Make the delivery for the webhook of a task that ended."""
        delivery = delivery_of(row, self.webhooks[row.id], self.now())
        if row.status is not TaskStatus.FAILED:
            # A dead letter may be replayed and end again.
            del self.webhooks[row.id]
        if delivery is not None:
            self.insert(delivery)
            self.board.post(Hint.READY)
