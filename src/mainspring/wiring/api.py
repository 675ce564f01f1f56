"""The API gateway: its parts put together, and served."""

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import msgspec

from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.api.application import Application
from mainspring.api.audit import AuditRoutes
from mainspring.api.doorkeeper import LOOPBACK_NAMES, Doorkeeper
from mainspring.api.health import HealthRoutes
from mainspring.api.leases import LeaseRoutes
from mainspring.api.metrics import Metrics
from mainspring.api.openapi import document
from mainspring.api.operations import OperationRoutes
from mainspring.api.queue_limits import LimitRoutes
from mainspring.api.routes import Route
from mainspring.api.schedules import ScheduleRoutes
from mainspring.api.server import listen, serving
from mainspring.api.tasks import TaskRoutes
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
from mainspring.domain.errors import InvalidConfiguration, InvalidValue, Unavailable
from mainspring.ports.access import Tokens
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.whole import WholeStore
from mainspring.wiring.entrance import check_exposure, exposures, tls_of, tokens_of
from mainspring.wiring.graphql import graphql_routes

Tell = Callable[[str], None]
Duty = Callable[[], Awaitable[None]]

_LOGGER: Final = logging.getLogger("mainspring.api")
_AGAIN_SECONDS: Final = 1.0


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


def rest_application(services: ApiServices, store: WholeStore) -> Application:
    """Return the REST API."""
    health = HealthRoutes(store, services.metrics)
    routes: list[Route] = [
        *TaskRoutes(services.gateway, services.doorkeeper).routes(),
        *OperationRoutes(services.gateway).routes(),
        *LimitRoutes(services.gateway).routes(),
        *ScheduleRoutes(services.schedules).routes(),
        *LeaseRoutes(services.work).routes(),
        *AuditRoutes(store).routes(),
        *services.graphql.routes(),
        *health.routes(),
    ]
    described = document(routes, version("mainspring"), with_keys=services.with_keys)
    health.describe(msgspec.json.encode(described))
    application = Application(
        routes, services.doorkeeper, services.trail, services.ids, services.clock
    )
    services.metrics.watch_answers(application.answers)
    return application


@asynccontextmanager
async def api_running(
    store: WholeStore, settings: Settings, tell: Tell
) -> AsyncIterator[Application]:
    """Serve the API on a store for the time of the block.

    Raises `AddressInUse`, or `InvalidConfiguration` for an open server without authentication.
    """
    check_exposure(settings)
    tls = tls_of(settings)
    for exposure in exposures(settings):
        tell(f"warning: {exposure}")
    listener = listen(settings.host, settings.port)
    services = ApiServices(store, settings)
    application = rest_application(services, store)
    duties = [asyncio.create_task(_go_on(duty, services.clock)) for duty in services.duties()]
    if services.tokens is not None:
        duties.append(asyncio.create_task(_fetch_keys(services.tokens, tell)))
    try:
        async with serving(application, listener, tls):
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            tell(f"API: {'https' if tls else 'http'}://{shown}:{port}")
            if services.with_keys and await _lacks_keys(store):
                tell("there is no API key yet; make one: mainspring keys create NAME --scope ...")
            try:
                async with _rpc(services, application, settings, tell):
                    yield application
            finally:
                services.work.close()
                await services.doorkeeper.close()
    finally:
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        await services.close()


@asynccontextmanager
async def _rpc(
    services: ApiServices, application: Application, settings: Settings, tell: Tell
) -> AsyncIterator[None]:
    """Serve the gRPC API, too, if it is wanted."""
    if settings.grpc_port < 0:
        yield
        return
    # What it needs takes time to load, and is not for those who do without it.
    module = importlib.import_module("mainspring.wiring.rpc")
    async with module.rpc_running(services, application, settings, tell):
        yield


async def _fetch_keys(tokens: Tokens, tell: Tell) -> None:
    """Fetch the issuer's keys before a token comes, so that whoever starts the API is told why
    none will be accepted.
    """
    problem = await tokens.renew()
    if problem:
        tell(f"warning: no token can be accepted yet: {problem}")


async def _go_on(duty: Duty, clock: Clock) -> None:
    """Keep a duty going through faults of our own: figures that stand still look like calm."""
    while True:
        try:
            await duty()
        except Exception:
            _LOGGER.exception("a duty of the API failed and starts again")
        await clock.sleep(_AGAIN_SECONDS)


async def _lacks_keys(store: WholeStore) -> bool:
    """Whether it is certain that nobody has a key. That is a hint for who installs, so a store that
    cannot be asked now keeps no server from starting.
    """
    try:
        return not any(key.is_valid for key in await store.keys())
    except Unavailable:
        return False


def _thresholds(settings: Settings) -> Any:
    try:
        return {**THRESHOLDS, **parse_thresholds(settings.shed_thresholds)}
    except InvalidValue as error:
        raise InvalidConfiguration(error.message) from None
