"""Where the database is, and how to connect to it."""

from mainspring.adapters.postgres.pool import PoolOptions
from mainspring.config import Settings, shard_settings
from mainspring.domain.errors import StoreUnavailable
from mainspring.wiring import state_file


def database_url(settings: Settings) -> str:
    """Return the database to use: the configured one (the first of several), or that of a running
    `mainspring up`.

    Raises `StoreUnavailable` when there is neither.
    """
    if settings.database_url:
        return shard_settings(settings)[0].database_url
    running = state_file.read(settings.data_dir)
    if running is None:
        raise StoreUnavailable(
            f"no database is configured and no `mainspring up` runs on {settings.data_dir}; set "
            "MAINSPRING_DATABASE_URL, or start `mainspring up` in this directory"
        )
    return running.database_url


def direct_url(settings: Settings) -> str:
    """Return the way to the database, or the first of several, past a pooler."""
    first = shard_settings(settings)[0]
    return first.database_direct_url or database_url(first)


def pool_options(settings: Settings) -> PoolOptions:
    """Return how to connect to the database, or the first of several; raises as `database_url`
    does.
    """
    first = shard_settings(settings)[0]
    direct = first.database_direct_url or None
    return PoolOptions(
        dsn=database_url(first),
        direct_dsn=direct,
        # A way past a pooler is only named where there is one.
        pooled=first.database_pooled or direct is not None,
        size=first.database_pool_size,
        read_dsn=first.database_read_url or None,
        read_staleness_seconds=first.read_staleness_seconds,
    )
