"""Schedules for every transport: each verb with who asks as its first argument."""

from typing import Protocol

from mainspring.core.access import Principal
from mainspring.core.quotas import Quotas
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import Change, OnConflict, Schedules
from mainspring.core.tenant_schedules import TenantSchedules
from mainspring.domain.errors import QuotaExceeded, ScheduleNotFound
from mainspring.ports.access import Scope
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.parts import Divided
from mainspring.ports.schedules import ScheduleBook

_RETRY_SECONDS = 60.0


class DividedBook(ScheduleBook, Divided, Protocol):
    """The schedules, of which a part may be away."""


class ScheduleGateway:
    """Gives who asks the use cases on their own schedules."""

    def __init__(self, book: DividedBook, quotas: Quotas, clock: Clock, ids: IdSource) -> None:
        self._book = book
        self._quotas = quotas
        self._clock = clock
        self._ids = ids

    def missing(self) -> tuple[str, ...]:
        """Return the parts of the store that do not answer: lists leave out what is in them."""
        return self._book.missing()

    def looking(self, who: Principal) -> Schedules:
        """Return what reads schedules."""
        return self._of(who, Scope.READ)

    def changing(self, who: Principal) -> Schedules:
        """Return what changes schedules."""
        return self._of(who, Scope.ADMIN)

    async def create(
        self, who: Principal, name: str, change: Change, on_conflict: OnConflict
    ) -> tuple[Schedule, bool]:
        """Make a schedule; the second part says whether there was none of the name."""
        use = self.changing(who)
        try:
            await use.get(name)
            is_new = False
        except ScheduleNotFound:
            is_new = True
            await self._check_quota(who)
        return await use.create(name, change, on_conflict), is_new

    async def _check_quota(self, who: Principal) -> None:
        most = (await self._quotas.limits(who.namespace)).schedules_max
        if most is None:
            return
        count = len(await TenantSchedules(self._book, who).list_schedules(most + 1))
        if count >= most:
            raise QuotaExceeded(
                f"namespace {who.namespace!r} has {count:,} schedules and may have {most:,}; "
                "delete one first",
                retry_after=_RETRY_SECONDS,
            )

    def _of(self, who: Principal, scope: Scope) -> Schedules:
        who.require(scope)
        return Schedules(TenantSchedules(self._book, who), self._clock, self._ids)
