"""The settings of each shard."""

import dataclasses

from mainspring.config.settings import Settings
from mainspring.config.urls import split_urls
from mainspring.domain.errors import InvalidConfiguration


def shard_settings(settings: Settings) -> tuple[Settings, ...]:
    """Return the settings as each shard has them, by number: with one database.

    Raises `InvalidConfiguration` where the ways past a pooler, or the replicas, are not as many.
    """
    urls = split_urls(settings.database_url)
    if len(urls) <= 1:
        return (settings,)
    directs = _as_many(settings.database_direct_url, "database_direct_url", len(urls))
    reads = _as_many(settings.database_read_url, "database_read_url", len(urls))
    if len(set(urls)) < len(urls):
        raise InvalidConfiguration("database_url names a database twice; each is one shard")
    return tuple(
        dataclasses.replace(
            settings, database_url=url, database_direct_url=direct, database_read_url=read
        )
        for url, direct, read in zip(urls, directs, reads, strict=True)
    )


def _as_many(text: str, name: str, count: int) -> tuple[str, ...]:
    urls = split_urls(text) or ("",) * count
    if len(urls) != count:
        raise InvalidConfiguration(
            f"database_url names {count} databases and {name} {len(urls)}; name the same ones in "
            "both, in the same order"
        )
    return urls
