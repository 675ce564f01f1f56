"""A real gRPC API on a fresh database, and channels with keys for it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from api.conftest import Api, started
from fixtures.postgres import PostgresServer, free_port
from mainspring.api.rpc.methods import described
from mainspring.domain.namespaces import DEFAULT_NAMESPACE
from mainspring.ports.access import Scope

Metadata = Sequence[tuple[str, str]]
METHODS = dict(described())


class Client:
    """Calls methods by their names: `await client.call("TaskService.Submit", task_type="t")`."""

    def __init__(self, channel: grpc.aio.Channel, key: str | None) -> None:
        self.channel = channel
        self.metadata: Metadata = [] if key is None else [("authorization", f"Bearer {key}")]

    def method(self, name: str) -> tuple[Any, type[Message]]:
        descriptor = METHODS[name]
        kind = "stream" if descriptor.client_streaming else "unary"
        answer = "stream" if descriptor.server_streaming else "unary"
        make = getattr(self.channel, f"{kind}_{answer}")
        multicallable = make(
            path_of(descriptor),
            request_serializer=lambda message: (
                message if isinstance(message, bytes) else message.SerializeToString()
            ),
            response_deserializer=GetMessageClass(descriptor.output_type).FromString,
        )
        return multicallable, GetMessageClass(descriptor.input_type)

    async def call(self, method: str, /, **fields: Any) -> Any:
        """Call a method with one answer."""
        multicallable, kind = self.method(method)
        return await multicallable(kind(**fields), metadata=self.metadata, timeout=20)

    async def refused(self, method: str, /, **fields: Any) -> "Refusal":
        """Call a method that must not succeed."""
        return await refusal(self.call(method, **fields))

    def stream(self, method: str, /, **fields: Any) -> Any:
        """Call a method with many answers."""
        multicallable, kind = self.method(method)
        return multicallable(kind(**fields), metadata=self.metadata)

    def work(self) -> Any:
        """Open the stream of a worker."""
        multicallable, _ = self.method("WorkerService.Work")
        return multicallable(metadata=self.metadata)


class Refusal:
    """How a call failed."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.status = error.code().name
        self.text = error.details() or ""
        metadata = dict(error.trailing_metadata())
        self.code = metadata.get("mainspring-code")
        self.field = metadata.get("mainspring-field")
        self.retry_after = metadata.get("retry-after")


async def refusal(call: Any) -> Refusal:
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return Refusal(error)
    raise AssertionError(f"answered: {answer}")


def path_of(descriptor: MethodDescriptor) -> str:
    return f"/{descriptor.containing_service.full_name}/{descriptor.name}"


class Rpc:
    """A running gRPC API and what stands behind it."""

    def __init__(self, api: Api, port: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.api = api
        self.port = port
        self.target = f"127.0.0.1:{port}"
        self.namespace = namespace

    def apart(self) -> "Rpc":
        """The same server with a namespace in which nothing has happened yet."""
        return Rpc(self.api, self.port, f"test-{uuid4().hex[:8]}")

    @asynccontextmanager
    async def client(self, *scopes: Scope, **more: Any) -> AsyncIterator[Client]:
        key = await self.api.key(*scopes, **{"namespace": self.namespace, **more})
        async with self.with_key(key) as opened:
            yield opened

    @asynccontextmanager
    async def with_key(self, key: str | None, **options: Any) -> AsyncIterator[Client]:
        # One connection for each channel, so that one test's does not outlive its loop.
        local = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self.target, options=local, **options) as channel:
            yield Client(channel, key)


@asynccontextmanager
async def rpc_shared(server: PostgresServer, **changes: Any) -> AsyncIterator[Rpc]:
    """One API for all the tests of a module, each of which takes a namespace of its own."""
    name = await server.create_database(migrated=True)
    async with rpc_started(server.dsn(name), **changes) as running:
        yield running
    await server.drop_database(name)


@asynccontextmanager
async def rpc_started(database_url: str, **changes: Any) -> AsyncIterator[Rpc]:
    port = free_port()
    async with started(database_url, grpc_port=port, **changes) as api:
        yield Rpc(api, port)
