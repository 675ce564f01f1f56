"""One transaction of a caller on each kind of connection that is promised to work."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import django  # type: ignore[import-untyped]
import psycopg
import psycopg.rows
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.conf import settings  # type: ignore[import-untyped]
from django.db.utils import ConnectionHandler  # type: ignore[import-untyped]

T = TypeVar("T")
Use = Callable[[Any], Coroutine[Any, Any, T]]


class Transaction(Protocol):
    """Runs `use` with a connection in a transaction that ends as `commit` says."""

    async def __call__(self, dsn: str, use: Use[Any], *, commit: bool) -> Any: ...


class RollbackError(Exception):
    """The caller changed its mind."""


def driven(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine without an event loop; it must never wait."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    work.close()
    raise AssertionError("the coroutine waited although its connection blocks")


async def with_asyncpg(dsn: str, use: Use[T], *, commit: bool) -> T:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            value = await use(connection)
            if not commit:
                raise RollbackError
        return value
    finally:
        await connection.close()


async def with_asyncpg_pool(dsn: str, use: Use[T], *, commit: bool) -> T:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        value = await use(connection)
        if not commit:
            raise RollbackError
        return value


async def with_psycopg_async(dsn: str, use: Use[T], *, commit: bool) -> T:
    connection = await psycopg.AsyncConnection.connect(dsn, row_factory=psycopg.rows.dict_row)
    async with connection:
        value = await use(connection)
        if not commit:
            raise RollbackError
    return value


def psycopg_blocking(dsn: str, use: Use[T], *, commit: bool) -> T:
    with psycopg.connect(dsn) as connection:
        value = driven(use(connection))
        if not commit:
            raise RollbackError
    return value


def sqlalchemy_blocking(dsn: str, use: Use[T], *, commit: bool) -> T:
    engine = sqlalchemy.create_engine(_for_sqlalchemy(dsn, "psycopg"))
    try:
        with engine.begin() as connection:
            value = driven(use(connection))
            if not commit:
                raise RollbackError
        return value
    finally:
        engine.dispose()


def sqlalchemy_session(dsn: str, use: Use[T], *, commit: bool) -> T:
    engine = sqlalchemy.create_engine(_for_sqlalchemy(dsn, "psycopg"))
    try:
        with sqlalchemy.orm.Session(engine) as session, session.begin():
            value = driven(use(session))
            if not commit:
                raise RollbackError
        return value
    finally:
        engine.dispose()


async def with_sqlalchemy_async(dsn: str, use: Use[T], *, commit: bool) -> T:
    engine = sqlalchemy.ext.asyncio.create_async_engine(_for_sqlalchemy(dsn, "asyncpg"))
    try:
        async with engine.begin() as connection:
            value = await use(connection)
            if not commit:
                raise RollbackError
        return value
    finally:
        await engine.dispose()


async def with_sqlalchemy_async_session(dsn: str, use: Use[T], *, commit: bool) -> T:
    engine = sqlalchemy.ext.asyncio.create_async_engine(_for_sqlalchemy(dsn, "psycopg"))
    try:
        async with sqlalchemy.ext.asyncio.AsyncSession(engine) as session, session.begin():
            value = await use(session)
            if not commit:
                raise RollbackError
        return value
    finally:
        await engine.dispose()


def django_atomic(dsn: str, use: Use[T], *, commit: bool) -> T:
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    place = _parts(dsn)
    handler = ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": place["dbname"],
                "USER": place["user"],
                "PASSWORD": place["password"],
                "HOST": place["host"],
                "PORT": place["port"],
            }
        }
    )
    connection = handler["default"]
    connection.set_autocommit(False)
    try:
        value = driven(use(connection))
        if commit:
            connection.commit()
    finally:
        connection.close()
    if not commit:
        raise RollbackError
    return value


def in_thread(blocking: Callable[..., Any]) -> Transaction:
    async def run(dsn: str, use: Use[Any], *, commit: bool) -> Any:
        return await asyncio.to_thread(blocking, dsn, use, commit=commit)

    return run


KINDS: dict[str, Transaction] = {
    "asyncpg": with_asyncpg,
    "asyncpg-pool": with_asyncpg_pool,
    "psycopg": in_thread(psycopg_blocking),
    "psycopg-async": with_psycopg_async,
    "sqlalchemy": in_thread(sqlalchemy_blocking),
    "sqlalchemy-session": in_thread(sqlalchemy_session),
    "sqlalchemy-async": with_sqlalchemy_async,
    "sqlalchemy-async-session": with_sqlalchemy_async_session,
    "django": in_thread(django_atomic),
}


def _parts(dsn: str) -> dict[str, str]:
    url = urlsplit(dsn)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    return {
        "user": url.username or "",
        "password": url.password or "",
        "dbname": url.path[1:],
        "host": query.get("host", url.hostname or ""),
        "port": query.get("port", str(url.port or "")),
    }


def _for_sqlalchemy(dsn: str, driver: str) -> sqlalchemy.URL:
    place = _parts(dsn)
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=place["user"],
        password=place["password"],
        host=place["host"],
        port=int(place["port"]),
        database=place["dbname"],
    )
