"""The settings of each shard."""

import dataclasses

from mainspring.config.settings import Settings
from mainspring.config.urls import split_urls
from mainspring.domain.errors import InvalidConfiguration


def shard_settings(settings: Settings) -> tuple[Settings, ...]:
    """Return the settings as each shard has them, by number: with one database.

    Raises `InvalidConfiguration` where the ways past a pooler are not as many.
    """
    urls = split_urls(settings.database_url)
    if len(urls) <= 1:
        return (settings,)
    directs = split_urls(settings.database_direct_url) or ("",) * len(urls)
    if len(directs) != len(urls):
        raise InvalidConfiguration(
            f"database_url names {len(urls)} databases and database_direct_url {len(directs)}; "
            "name the same ones in both, in the same order"
        )
    if len(set(urls)) < len(urls):
        raise InvalidConfiguration("database_url names a database twice; each is one shard")
    return tuple(
        dataclasses.replace(settings, database_url=url, database_direct_url=direct)
        for url, direct in zip(urls, directs, strict=True)
    )
