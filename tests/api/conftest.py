"""A real API on a real socket and a fresh database, and clients with keys for it."""

import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from fixtures.postgres import PostgresServer, free_port
from mainspring.api.application import Application
from mainspring.config import Settings
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.domain.namespaces import DEFAULT_NAMESPACE
from mainspring.ports.access import Scope
from mainspring.ports.whole import WholeStore
from mainspring.wiring.api import api_running
from mainspring.wiring.store import open_store

JSON = {"content-type": "application/json"}


@dataclass
class Api:
    """A running API and what stands behind it."""

    url: str
    store: WholeStore
    application: Application
    said: list[str]

    async def key(
        self,
        *scopes: Scope,
        namespace: str = DEFAULT_NAMESPACE,
        queues: tuple[str, ...] | None = None,
        **more: Any,
    ) -> str:
        text, record = new_key(
            "test",
            secrets.token_bytes(ID_BYTES + SECRET_BYTES),
            namespace=namespace,
            scopes=scopes or tuple(Scope),
            queues=queues,
            **more,
        )
        await self.store.add_key(record)
        return text

    async def client(
        self,
        *scopes: Scope,
        namespace: str = DEFAULT_NAMESPACE,
        queues: tuple[str, ...] | None = None,
    ) -> httpx.AsyncClient:
        key = await self.key(*scopes, namespace=namespace, queues=queues)
        return self.with_key(key)

    def with_key(self, key: str | None) -> httpx.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        # Without `verify` each client would read all the authorities anew, for nothing.
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=20, trust_env=False, verify=False
        )


Start = Callable[..., AbstractAsyncContextManager[Api]]


@asynccontextmanager
async def started(database_url: str, **changes: Any) -> AsyncIterator[Api]:
    settings = dataclasses.replace(
        Settings(),
        **{"database_url": database_url, "port": free_port(), "grpc_port": -1, **changes},
    )
    store = await open_store(settings)
    said: list[str] = []
    try:
        async with api_running(store, settings, said.append) as application:
            url = f"http://127.0.0.1:{settings.port}"
            yield Api(url, store, application, said)
            assert application.unforeseen == 0
    finally:
        await store.close()


@pytest.fixture
def changes_more_than_rows() -> bool:
    """Overridden where tests do: they get a fresh database."""
    return False


@pytest.fixture
async def database(
    postgres_server: PostgresServer, changes_more_than_rows: bool
) -> AsyncIterator[str]:
    """The URL of a database with the current schema and nothing in it."""
    if not changes_more_than_rows:
        yield postgres_server.dsn(await postgres_server.recycled_database())
        return
    name = await postgres_server.create_database(migrated=True)
    yield postgres_server.dsn(name)
    await postgres_server.drop_database(name)


@pytest.fixture
async def api(database: str) -> AsyncIterator[Api]:
    async with started(database) as running:
        yield running


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client with every scope in the default namespace."""
    async with await api.client() as opened:
        yield opened
