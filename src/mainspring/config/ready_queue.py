"""The settings of the ready queue beside the database."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated

from mainspring.config.facts import Facts
from mainspring.config.redis_urls import parse_redis_url
from mainspring.domain.ids import PARTITIONS


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ReadyQueueSettings:
    """Part of `Settings`."""

    ready_queue: Annotated[
        str,
        Facts(
            "Where workers ask which tasks are due: the database, or Redis (or Valkey) in front of "
            "it. Everything of an installation needs the same",
            choices=("postgres", "redis"),
        ),
    ] = "postgres"
    redis_url: Annotated[
        str,
        Facts(
            "Redis 7 or Valkey for the ready queue and for locks, such as "
            "`redis://user:password@host:6379/0`; `rediss` for TLS, `unix` for a socket, "
            "`redis+cluster://host:6379,host:6379` for a cluster, "
            "`redis+sentinel://host:26379,host:26379/service/0` for what sentinels watch. "
            "Of the ready queue it holds ids alone and may lose them",
            secret=True,
        ),
    ] = ""
    redis_sentinel_password: Annotated[
        str,
        Facts(
            "Password of the sentinels in `redis_url`, where they have one; that of the servers is "
            "in the URL",
            secret=True,
        ),
    ] = ""
    redis_ca_file: Annotated[
        str,
        Facts(
            "PEM file with the authorities that are believed for `redis_url`. Empty: those of the "
            "system"
        ),
    ] = ""
    redis_prefix: Annotated[
        str,
        Facts("What the keys in Redis begin with. Installations that share one need one each"),
    ] = "mainspring"
    redis_slices: Annotated[
        int,
        Facts(
            "Into how many parts the ready queue is divided, each fed by one scheduler. Everything "
            "of an installation needs the same",
            low=1,
            high=PARTITIONS,
        ),
    ] = 1


def ready_queue_problems(settings: ReadyQueueSettings) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong."""
    if settings.ready_queue == "redis" and not settings.redis_url:
        yield "ready_queue is redis but redis_url is empty; say where Redis is"
    if settings.redis_url and parse_redis_url(settings.redis_url) is None:
        # Not shown: it may hold a password.
        yield (
            "redis_url is no URL of Redis; write redis://user:password@host:6379/0, "
            "redis+cluster://host:6379,host:6379 or redis+sentinel://host:26379,host:26379/service"
        )
    if not settings.redis_prefix or set(settings.redis_prefix) & set("{} "):
        yield (
            f"redis_prefix is {settings.redis_prefix!r}; give a name without spaces and braces, "
            "such as mainspring"
        )
