"""Redis, as the settings name it."""

from typing import Final
from urllib.parse import quote

from mainspring.adapters.redis.link import Link, RedisLink, RedisOptions, ServerFacts
from mainspring.adapters.redis.locks import RedisLocks
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.redis.routed import (
    REDIRECTS,
    RoutedLink,
    cluster_shares,
    watched_share,
)
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, shard_settings, without_password
from mainspring.config.redis_urls import RedisPlace, parse_redis_url
from mainspring.domain.errors import InvalidConfiguration, MainspringError
from mainspring.ports.ready_queue import ReadyFigures

_FIRST_GOOD: Final = 7
_KEEPS: Final = "noeviction"


def redis_ready_queue(settings: Settings, shard: int | None = None) -> RedisReadyQueue:
    """Return the ready queue in the configured Redis, or that of the shard of this number."""
    prefix = settings.redis_prefix if shard is None else f"{settings.redis_prefix}:shard-{shard}"
    return RedisReadyQueue(redis_link(settings), prefix, slices=settings.redis_slices)


def redis_locks(settings: Settings) -> RedisLocks:
    """Return the locks in the configured Redis."""
    return RedisLocks(redis_link(settings), settings.redis_prefix)


def redis_link(settings: Settings) -> Link:
    """Return the way to the configured Redis. Nothing is connected before the first use."""
    place = parse_redis_url(settings.redis_url)
    if place is None:
        raise InvalidConfiguration(
            "redis_url is no URL of Redis; write redis://user:password@host:6379/0",
            field="redis_url",
        )
    ca_file = settings.redis_ca_file or None
    clock = SystemClock()
    if place.kind == "server":
        return RedisLink(RedisOptions(url=place.url, ca_file=ca_file), clock)

    def link_to(host: str, port: int) -> RedisLink:
        url = place.url_of(host, port)
        return RedisLink(RedisOptions(url=url, ca_file=ca_file), clock, REDIRECTS)

    guides = [
        RedisLink(RedisOptions(url=url, ca_file=ca_file), clock)
        for url in _guides(place, settings.redis_sentinel_password)
    ]
    is_cluster = place.kind == "cluster"
    look = cluster_shares if is_cluster else watched_share(place.service)
    return RoutedLink(guides, look, link_to, clock, asks_all=is_cluster)


async def redis_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Say of Redis whether it answers, is of a version that works and keeps what it is told, and
    of the ready queue in it, if there is one, what it holds.
    """
    link = redis_link(settings)
    where = f"at {without_password(settings.redis_url)}"
    try:
        servers = await link.servers()
    except MainspringError as error:
        detail = f"nothing {where} answers as Redis does ({error.message.rstrip('.')})"
        return [(False, f"{detail}; check that it runs there and redis_url; {_without(settings)}")]
    finally:
        await link.close()
    for server in servers:
        if problem := _problem(server):
            return [(False, f"{server.name} {server.version} {where} {problem}")]
    names = {f"{server.name} {server.version}": None for server in servers}
    said = f"{', '.join(names)} {where}"
    if settings.ready_queue != "redis":
        return [(True, f"{said}: for locks")]
    is_well, detail = await _fed(settings, said)
    if any(server.logs for server in servers):
        detail += "; the ready queue does not need its appendonly file"
    return [(is_well, detail)]


def _without(settings: Settings) -> str:
    if settings.ready_queue == "redis":
        return "workers ask the database instead"
    return "exclusive tasks wait until it does, and so do handlers for locks"


async def _fed(settings: Settings, said: str) -> tuple[bool, str]:
    shards = len(shard_settings(settings))
    numbers = range(1, shards + 1) if shards > 1 else (None,)
    queues = [redis_ready_queue(settings, number) for number in numbers]
    try:
        figures = _sum([await queue.figures() for queue in queues])
    except MainspringError as error:
        return False, f"{error.message}; {_without(settings)}"
    finally:
        for queue in queues:
            await queue.close()
    fed = f"{figures.fed} of {figures.slices} slices fed, {figures.entries} tasks due soon"
    if figures.fed < figures.slices:
        fed += "; start a scheduler with the same ready_queue, until then workers ask the database"
    return figures.fed == figures.slices, f"{said}: {fed}"


def _guides(place: RedisPlace, password: str) -> list[str]:
    if place.kind == "sentinel":
        return place.sentinel_urls(quote(password, safe=""))
    return [place.url_of(host, port) for host, port in place.hosts]


def _problem(server: ServerFacts) -> str:
    if int(server.version.partition(".")[0]) < _FIRST_GOOD:
        return f"is too old; update it to {_FIRST_GOOD} or later"
    # Nothing is lost, but it is as if it were away now and then.
    return "" if server.policy == _KEEPS else f"may drop keys; set its maxmemory-policy to {_KEEPS}"


def _sum(figures: list[ReadyFigures]) -> ReadyFigures:
    return ReadyFigures(
        entries=sum(one.entries for one in figures),
        taken=sum(one.taken for one in figures),
        fed=sum(one.fed for one in figures),
        slices=sum(one.slices for one in figures),
    )
