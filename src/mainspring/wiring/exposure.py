"""Connections to the services behind, on which others may be able to read along."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mainspring.config import Settings, is_loopback
from mainspring.config.redis_urls import parse_redis_url

_ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})


def plain_connections(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each connection that leaves this machine and may be unencrypted."""
    for name in ("database_url", "database_direct_url", "database_read_url"):
        if is_plain_database(getattr(settings, name)):
            yield (
                "the connection to the database leaves this machine and need not be encrypted; "
                f"add sslmode=verify-full to {name}"
            )
    if settings.coordination == "etcd":
        endpoints = [urlsplit(part.strip()) for part in settings.etcd_url.split(",")]
        if any(one.scheme == "http" and not is_loopback(one.hostname or "") for one in endpoints):
            yield (
                "the connection to etcd leaves this machine and is not encrypted; use https in "
                "etcd_url"
            )
    if settings.redis_url:
        place = parse_redis_url(settings.redis_url)
        hosts = place.hosts if place is not None and not place.is_secure else ()
        if not all(is_loopback(host) for host, _ in hosts):
            yield (
                "the connection to Redis leaves this machine and is not encrypted; use rediss, "
                "rediss+cluster or rediss+sentinel in redis_url"
            )


def is_plain_database(url: str) -> bool:
    """Whether the way to a database leads over a network and may be unencrypted."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = query.get("host", [parts.hostname or ""])[0]
    is_local = not host or host.startswith("/") or is_loopback(host)
    return not is_local and query.get("sslmode", [""])[0] not in _ENCRYPTED
