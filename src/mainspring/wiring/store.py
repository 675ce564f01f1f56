"""The task store and the sessions on it."""

from mainspring.adapters.postgres import migrate as migrations
from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.adapters.postgres.queued import open_queued_store
from mainspring.adapters.postgres.store import PostgresStore
from mainspring.adapters.postgres.store import open_store as open_postgres
from mainspring.adapters.system import SystemClock, SystemIds
from mainspring.config import Settings
from mainspring.core.session import Session
from mainspring.domain.errors import StoreUnavailable
from mainspring.ports.clock import Clock, IdSource
from mainspring.wiring import state_file
from mainspring.wiring.ready_queue import open_ready_queue


def system_clock() -> Clock:
    """Return the clock of this machine."""
    return SystemClock()


def system_ids() -> IdSource:
    """Return the source of ids of this process."""
    return SystemIds()


async def open_session(settings: Settings) -> Session:
    """Open a session for the running event loop.

    Raises `StoreUnavailable` or `SetupError`s: no schema, another schema, an unsupported server.
    """
    store = await open_store(settings)
    return Session(store, SystemClock(), SystemIds(), settings.submit_timeout_seconds)


async def open_store(settings: Settings) -> PostgresStore:
    """Open the task store, with the ready queue if there is one; raises as `open_session` does."""
    queue = open_ready_queue(settings)
    if queue is not None:
        limit_seconds = settings.level_limit_seconds
        return await open_queued_store(pool_options(settings), queue, limit_seconds=limit_seconds)
    return await open_postgres(pool_options(settings), limit_seconds=settings.level_limit_seconds)


async def migrate(settings: Settings) -> list[str]:
    """Bring the database to the schema of this version; return the names of the steps done."""
    return [_name(step) for step in await migrations.migrate(_direct_url(settings))]


async def grant_services(settings: Settings, role: str) -> None:
    """Give a database role what the services need; raises `InvalidValue` if there is none."""
    await migrations.grant_services(_direct_url(settings), role)


async def migration_plan(settings: Settings) -> list[tuple[str, str]]:
    """Return what `migrate` would do: the name and the SQL of each step."""
    return [(_name(step), step.sql) for step in await migrations.plan(_direct_url(settings))]


def database_url(settings: Settings) -> str:
    """Return the database to use: the configured one, or that of a running `mainspring up`.

    Raises `StoreUnavailable` when there is neither.
    """
    if settings.database_url:
        return settings.database_url
    running = state_file.read(settings.data_dir)
    if running is None:
        raise StoreUnavailable(
            f"no database is configured and no `mainspring up` runs on {settings.data_dir}; set "
            "MAINSPRING_DATABASE_URL, or start `mainspring up` in this directory"
        )
    return running.database_url


def pool_options(settings: Settings) -> PoolOptions:
    """Return how to connect to the database; raises as `database_url` does."""
    direct = settings.database_direct_url or None
    return PoolOptions(
        dsn=database_url(settings),
        direct_dsn=direct,
        # A way past a pooler is only named where there is one.
        pooled=settings.database_pooled or direct is not None,
        size=settings.database_pool_size,
    )


def _direct_url(settings: Settings) -> str:
    return settings.database_direct_url or database_url(settings)


def _name(step: migrations.Migration) -> str:
    return f"{step.number:04}_{step.name}"
