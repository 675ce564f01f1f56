"""Everything behind the API that does not depend on the protocol."""

from collections.abc import Awaitable, Callable
from typing import Any

from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.api.doorkeeper import LOOPBACK_NAMES, Doorkeeper
from mainspring.api.metrics import Metrics
from mainspring.config import Settings
from mainspring.core.access import Authenticator
from mainspring.core.auditing import AuditTrail
from mainspring.core.gateway import Gateway
from mainspring.core.intake import Intake
from mainspring.core.quotas import Quotas
from mainspring.core.reachable_ids import ReachableIds
from mainspring.core.remote_work import RemoteWork
from mainspring.core.schedule_gateway import ScheduleGateway
from mainspring.core.session import Session
from mainspring.core.shedding import THRESHOLDS, Shedder, parse_thresholds
from mainspring.domain.errors import InvalidConfiguration, InvalidValue
from mainspring.ports.clock import IdSource
from mainspring.ports.whole import WholeStore
from mainspring.wiring.entrance import tokens_of
from mainspring.wiring.graphql import graphql_routes

Duty = Callable[[], Awaitable[None]]


class ApiServices:
    """Everything behind the API that does not depend on the protocol."""

    def __init__(self, store: WholeStore, settings: Settings) -> None:
        clock = SystemClock()
        self.clock = clock
        self.ids: IdSource = SystemIds()
        if len(store.parts()) > 1:
            self.ids = ReachableIds(self.ids, store)
        self.session = Session(store, clock, self.ids, settings.submit_timeout_seconds)
        self.shedder = Shedder(store, clock, _thresholds(settings))
        self.quotas = Quotas(store, store, clock)
        self.gateway = Gateway(self.session, Intake(self.ids), self.quotas, self.shedder)
        self.schedules = ScheduleGateway(store, self.quotas, clock, self.ids)
        self.work = RemoteWork(store, clock, SystemChance())
        self.trail = AuditTrail(store, clock)
        self.metrics = Metrics(store, store, self.shedder, clock)
        self.with_keys = settings.auth
        self.tokens = tokens_of(settings, clock)
        self.authenticator = Authenticator(store, clock, self.tokens) if settings.auth else None
        self.doorkeeper = Doorkeeper(self.authenticator, clock, hosts=LOOPBACK_NAMES)
        self.graphql = graphql_routes(
            self.gateway, self.schedules, self.doorkeeper, is_on=settings.graphql
        )

    def duties(self) -> list[Duty]:
        """Return what runs in the background."""
        return [self.shedder.run, self.metrics.run]

    async def close(self) -> None:
        """End streams, write what is waiting, and let submissions arrive; the store stays open."""
        await self.doorkeeper.close()
        await self.gateway.changes.close()
        await self.session.waiting.close()
        await self.session.submissions.close()
        await self.trail.close()
        if self.tokens is not None:
            await self.tokens.close()


def _thresholds(settings: Settings) -> Any:
    try:
        return {**THRESHOLDS, **parse_thresholds(settings.shed_thresholds)}
    except InvalidValue as error:
        raise InvalidConfiguration(error.message) from None
