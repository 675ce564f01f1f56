"""The gRPC API beside the REST API: the same services in the same event loop, on a port of its own.

Loaded only where it is served: what it needs takes time and memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from mainspring.api.application import Application
from mainspring.api.performing import Performer
from mainspring.api.rpc.gate import Gate
from mainspring.api.rpc.methods import FILES, methods_of
from mainspring.api.rpc.recording import Recorder
from mainspring.api.rpc.server import CALLS_MAX, OPTIONS, Services, serving
from mainspring.api.rpc.unary import UnaryCalls
from mainspring.api.rpc.watching import Watching
from mainspring.api.rpc.working import Working
from mainspring.config import Settings
from mainspring.core.shedding import Shedder
from mainspring.core.work_streams import WorkStreams
from mainspring.domain.errors import InvalidConfiguration
from mainspring.ports.clock import Clock
from mainspring.wiring.services import ApiServices

Tell = Callable[[str], None]

_HEALTH_SECONDS: Final = 1.0


class RpcServices:
    """What stands behind the methods."""

    def __init__(self, services: ApiServices, application: Application) -> None:
        self._doorkeeper = services.doorkeeper
        self._work = services.work
        self.port = 0
        self.gate = Gate(services.doorkeeper, services.ids, services.clock, application)
        self.streams = WorkStreams(services.work, services.session.store, services.clock)
        self.methods = methods_of(application.router.routes)
        self.handlers = Services(
            self.methods,
            UnaryCalls(self.gate, Performer(services.trail)),
            Watching(self.gate, services.gateway, services.doorkeeper),
            Working(self.gate, self.streams, services.doorkeeper, Recorder(services.trail)),
        )

    async def end_streams(self) -> None:
        """Tell every stream that the server is going to stop."""
        self.gate.is_stopping = True
        self._work.close()
        await self._doorkeeper.close()


@asynccontextmanager
async def rpc_running(
    services: ApiServices, application: Application, settings: Settings, tell: Tell
) -> AsyncIterator[RpcServices]:
    """Serve the gRPC API for the time of the block; raises `AddressInUse`."""
    rpc = RpcServices(services, application)
    server = grpc.aio.server(
        handlers=[rpc.handlers], options=OPTIONS, maximum_concurrent_rpcs=CALLS_MAX
    )
    condition = _health(server) if settings.grpc_health else None
    if settings.grpc_reflection:
        reflection.enable_server_reflection([*_names(), reflection.SERVICE_NAME], server)
    looking = asyncio.create_task(_look(condition, services.shedder, services.clock))
    try:
        async with serving(server, settings.host, settings.grpc_port, _tls(settings)) as port:
            rpc.port = port
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            tell(f"gRPC: {host}:{port}{' with TLS' if settings.tls_cert_file else ''}")
            try:
                yield rpc
            finally:
                if condition is not None:
                    await condition.enter_graceful_shutdown()
                await rpc.end_streams()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await rpc.gate.close()
        await rpc.streams.close()


def _health(server: grpc.aio.Server) -> health.aio.HealthServicer:
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    return servicer


async def _look(
    condition: health.aio.HealthServicer | None, shedder: Shedder, clock: Clock
) -> None:
    """Report healthy as long as the store answers."""
    while condition is not None:
        status = health_pb2.HealthCheckResponse.NOT_SERVING
        if shedder.pressure.reachable:
            status = health_pb2.HealthCheckResponse.SERVING
        for name in ("", *_names()):
            await condition.set(name, status)
        await clock.sleep(_HEALTH_SECONDS)


def _names() -> list[str]:
    return [service.full_name for file in FILES for service in file.services_by_name.values()]


def _tls(settings: Settings) -> grpc.ServerCredentials | None:
    """Return how the server speaks TLS; None if it does not.

    The library asks every client for a certificate or none, so where one is not required, none is
    asked for, and clients show their keys.
    """
    if not settings.tls_cert_file:
        return None
    pair = (_content(settings.tls_key_file), _content(settings.tls_cert_file))
    if not settings.tls_client_required:
        return grpc.ssl_server_credentials([pair])
    authorities = _content(settings.tls_client_ca_file)
    return grpc.ssl_server_credentials([pair], authorities, require_client_auth=True)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from None
