"""The API gateway: its parts put together, and served."""

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import msgspec

from mainspring.api.application import Application
from mainspring.api.audit import AuditRoutes
from mainspring.api.health import HealthRoutes
from mainspring.api.leases import LeaseRoutes
from mainspring.api.openapi import document
from mainspring.api.operations import OperationRoutes
from mainspring.api.queue_limits import LimitRoutes
from mainspring.api.routes import Route
from mainspring.api.schedules import ScheduleRoutes
from mainspring.api.server import listen, serving
from mainspring.api.tasks import TaskRoutes
from mainspring.config import Settings
from mainspring.domain.errors import Unavailable
from mainspring.ports.access import Tokens
from mainspring.ports.clock import Clock
from mainspring.ports.whole import WholeStore
from mainspring.wiring.entrance import check_exposure, exposures, tls_of
from mainspring.wiring.services import ApiServices, Duty

Tell = Callable[[str], None]

_LOGGER: Final = logging.getLogger("mainspring.api")
_AGAIN_SECONDS: Final = 1.0


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
