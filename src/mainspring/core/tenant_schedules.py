"""The schedules of one namespace, as if there were no others.

The names of schedules, and of the queues of their runs, are stored with the namespace as their
first part. What passes here outwards loses it and what passes inwards gets it, so the use cases on
schedules need not know that there are namespaces.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from mainspring.core.access import Principal
from mainspring.domain.ids import beside, key_tail
from mainspring.domain.namespaces import (
    namespace_of,
    plain_branch,
    plain_key,
    plain_queue,
    stored_key,
    stored_queue,
)
from mainspring.domain.webhooks import Webhook
from mainspring.ports.schedules import (
    Committed,
    NewTick,
    ScheduleBook,
    SchedulePlan,
    StoredSchedule,
    Tick,
)

_PAGE: Final = 500


class TenantSchedules:
    """`ports.schedules.ScheduleBook` for who asks."""

    def __init__(self, book: ScheduleBook, who: Principal) -> None:
        self._book = book
        self._who = who

    async def store_time(self) -> datetime:
        """Return the store's time."""
        return await self._book.store_time()

    async def create_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a new schedule; False when the name is taken."""
        inward = self._inwards(schedule)
        # It is looked for where the name with its namespace belongs.
        place = beside(inward.id, UUID(int=key_tail(inward.name)))
        return await self._book.create_schedule(msgspec.structs.replace(inward, id=place))

    async def replace_schedule(self, schedule: StoredSchedule) -> bool:
        """Store a changed schedule if it still has its revision."""
        return await self._book.replace_schedule(self._inwards(schedule))

    async def get_schedule(self, name: str) -> StoredSchedule | None:
        """Return a schedule by its name."""
        found = await self._book.get_schedule(stored_queue(self._who.namespace, name))
        return self._outwards(found) if found is not None and self._sees(found) else None

    async def list_schedules(self, limit: int, after: str = "") -> list[StoredSchedule]:
        """Return schedules in the order of their names, those after a name."""
        found: list[StoredSchedule] = []
        last = stored_queue(self._who.namespace, after)
        while part := await self._book.list_schedules(_PAGE, last):
            found.extend(self._outwards(one) for one in part if self._sees(one))
            last = part[-1].name
            if len(found) >= limit:
                break
        return found[:limit]

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule."""
        if await self.get_schedule(name) is None:
            return False
        return await self._book.delete_schedule(stored_queue(self._who.namespace, name))

    async def commit_plans(self, plans: Sequence[SchedulePlan]) -> list[Committed]:
        """Carry out plans of schedules that were read here."""
        return await self._book.commit_plans([self._plan(plan) for plan in plans])

    async def ticks(
        self, schedule_id: UUID, limit: int, before: datetime | None = None
    ) -> list[Tick]:
        """Return the ticks of a schedule that was read here."""
        return await self._book.ticks(schedule_id, limit, before)

    def _sees(self, stored: StoredSchedule) -> bool:
        is_own = namespace_of(stored.name) == self._who.namespace
        return is_own and self._who.sees(stored.template.queue)

    def _inwards(self, plain: StoredSchedule) -> StoredSchedule:
        template = plain.template
        return msgspec.structs.replace(
            plain,
            name=stored_queue(self._who.namespace, plain.name),
            template=msgspec.structs.replace(
                template,
                queue=self._who.stored_queue(template.queue),
                unique_key=self._stored_key(template.unique_key),
                webhook=self._stored_webhook(template.webhook),
            ),
        )

    def _outwards(self, stored: StoredSchedule) -> StoredSchedule:
        template = stored.template
        webhook = template.webhook
        if webhook is not None:
            webhook = msgspec.structs.replace(webhook, queue=plain_queue(webhook.queue))
        return msgspec.structs.replace(
            stored,
            name=plain_queue(stored.name),
            template=msgspec.structs.replace(
                template,
                queue=plain_branch(template.queue),
                unique_key=plain_key(template.unique_key),
                webhook=webhook,
            ),
        )

    def _stored_key(self, key: str | None) -> str | None:
        return None if key is None else stored_key(self._who.namespace, key)

    def _stored_webhook(self, webhook: Webhook | None) -> Webhook | None:
        if webhook is None:
            return None
        queue = stored_queue(self._who.namespace, webhook.queue)
        return msgspec.structs.replace(webhook, queue=queue)

    def _plan(self, plan: SchedulePlan) -> SchedulePlan:
        return msgspec.structs.replace(
            plan,
            schedule=self._inwards(plan.schedule),
            ticks=tuple(self._tick(tick) for tick in plan.ticks),
        )

    def _tick(self, tick: NewTick) -> NewTick:
        task = tick.task
        if task is None:
            return tick
        made_by = task.tick
        if made_by is not None:
            name = stored_queue(self._who.namespace, made_by.schedule)
            made_by = msgspec.structs.replace(made_by, schedule=name)
        inward = msgspec.structs.replace(
            task,
            queue=self._who.stored_queue(task.queue),
            unique_key=self._stored_key(task.unique_key),
            webhook=self._stored_webhook(task.webhook),
            tick=made_by,
        )
        return msgspec.structs.replace(tick, task=inward)
