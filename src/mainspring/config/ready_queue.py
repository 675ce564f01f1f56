"""The settings of the ready queue beside the database."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from mainspring.config.facts import Facts
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
            "Redis 7 or Valkey for the ready queue, such as `redis://user:password@host:6379/0`; "
            "`rediss` for TLS, `unix` for a socket. It holds ids alone and may lose them",
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
    if settings.redis_url and not _is_redis(settings.redis_url):
        # Not shown: it may hold a password.
        yield "redis_url is no URL of Redis; write redis://user:password@host:6379/0"
    if not settings.redis_prefix or set(settings.redis_prefix) & set("{} "):
        yield (
            f"redis_prefix is {settings.redis_prefix!r}; give a name without spaces and braces, "
            "such as mainspring"
        )


def _is_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if parts.query or parts.fragment:
        # The driver would take its bounds in time and its retries from there.
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    is_database = not parts.path.strip("/") or parts.path.strip("/").isdecimal()
    return parts.scheme in {"redis", "rediss"} and bool(parts.hostname) and has_port and is_database
