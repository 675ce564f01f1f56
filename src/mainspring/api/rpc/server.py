"""The gRPC server: which methods it has, and bounds on what a connection may do."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from mainspring.api.limits import BATCH_BYTES_MAX, HEADER_BYTES_MAX
from mainspring.api.rpc.methods import Method
from mainspring.api.rpc.unary import UnaryCalls
from mainspring.api.rpc.watching import Watching
from mainspring.api.rpc.working import Working
from mainspring.domain.errors import AddressInUse

CALLS_MAX: Final = 5000
"""Calls and streams at a time, of all clients together; more are told RESOURCE_EXHAUSTED."""

DRAIN_SECONDS: Final = 5.0
"""How long calls and streams may go on when the server stops."""

STREAMS_PER_CONNECTION_MAX: Final = 1000
_ROOM_BYTES: Final = 64 * 1024
_IDENTITY_ONLY: Final = 1

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # What is a little too large is still read, so that the answer can say so in words.
    ("grpc.max_receive_message_length", BATCH_BYTES_MAX + _ROOM_BYTES),
    ("grpc.max_metadata_size", HEADER_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", HEADER_BYTES_MAX + _ROOM_BYTES),
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    # A compressed message may be a thousand times as large as its limit.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
    # Two servers on one port would share its connections without a word.
    ("grpc.so_reuseport", 0),
    ("grpc.max_connection_idle_ms", 300_000),
    # A client that vanished keeps its streams no longer than this.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class Services(grpc.GenericRpcHandler):
    """Finds the handler of a call. What is not here is UNIMPLEMENTED."""

    def __init__(
        self, methods: Sequence[Method], unary: UnaryCalls, watching: Watching, working: Working
    ) -> None:
        self._handlers: dict[str, Any] = {
            method.path: grpc.stream_stream_rpc_method_handler(
                _handler(_server_of(method, unary, watching, working), method)
            )
            for method in methods
        }

    def service(self, handler_call_details: Any) -> Any:
        """Return what handles a call."""
        return self._handlers.get(handler_call_details.method)


Serve = Callable[[Method, Any], Awaitable[None]]


def _server_of(method: Method, unary: UnaryCalls, watching: Watching, working: Working) -> Serve:
    if method.descriptor.client_streaming:
        return working.call
    return watching.call if method.descriptor.server_streaming else unary.call


def _handler(serve: Serve, method: Method) -> Any:
    async def handler(_requests: Any, context: Any) -> None:
        await serve(method, context)

    return handler


@asynccontextmanager
async def serving(
    server: grpc.aio.Server, address: str, port: int, credentials: grpc.ServerCredentials | None
) -> AsyncIterator[int]:
    """Run a server for the time of the block and yield its port; raises `AddressInUse`.

    Whoever leaves the block has told the streams to end before.
    """
    host = f"[{address}]" if ":" in address else address
    try:
        if credentials is None:
            bound = server.add_insecure_port(f"{host}:{port}")
        else:
            bound = server.add_secure_port(f"{host}:{port}", credentials)
    except RuntimeError:
        bound = 0
    if not bound:
        raise AddressInUse(
            f"the gRPC API cannot listen on {address} port {port}; stop what uses it, or choose "
            "another with --grpc-port or MAINSPRING_GRPC_PORT"
        )
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(DRAIN_SECONDS)
