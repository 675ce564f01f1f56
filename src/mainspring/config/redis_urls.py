"""How Redis is named in one setting: a server, a cluster, or sentinels that know where it is."""

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["server", "cluster", "sentinel"]

_URL: Final = re.compile(
    r"(?P<scheme>rediss?)(?:\+(?P<kind>cluster|sentinel))?://"
    r"(?:(?P<account>[^/?#\s]*)@)?(?P<hosts>[^@/?#\s]+)(?P<path>/[^?#\s]*)?"
)
_SOCKET: Final = re.compile(r"unix://(?:[^/?#\s]*@)?/[^?#\s]+")
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:,]+)(?::(?P<port>[0-9]{1,5}))?")
_PATHS: Final[dict[str, re.Pattern[str]]] = {
    "server": re.compile(r"/?(?P<database>[0-9]*)/?"),
    # A cluster has one database only.
    "cluster": re.compile(r"/?(?P<database>0?)"),
    "sentinel": re.compile(r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<database>[0-9]*))?"),
}
_PORT_MAX: Final = 65535


class RedisPlace(NamedTuple):
    """Where Redis is. `url` is what was read, the rest is empty for a socket."""

    kind: Kind
    url: str
    is_secure: bool = False
    account: str = ""
    """User and password as they stand in the URL, escaped."""

    hosts: tuple[tuple[str, int], ...] = ()
    """A server, some nodes of a cluster, or the sentinels."""

    service: str = ""
    """What the sentinels call the server."""

    database: int = 0

    def url_of(self, host: str, port: int) -> str:
        """Return the URL of one server that takes the same account."""
        account = f"{self.account}@" if self.account else ""
        return f"{self._scheme}://{account}{_bracketed(host)}:{port}/{self.database}"

    def sentinel_urls(self, password: str = "") -> list[str]:
        """Return a URL for each sentinel; `password`, escaped, is that of the sentinels."""
        account = f":{password}@" if password else ""
        return [
            f"{self._scheme}://{account}{_bracketed(host)}:{port}/0" for host, port in self.hosts
        ]

    @property
    def _scheme(self) -> str:
        return "rediss" if self.is_secure else "redis"


def parse_redis_url(url: str) -> RedisPlace | None:
    """Read a URL of Redis; None: it is none.

    One with a query is none: the driver would take its time limits and its retries from there.
    """
    if _SOCKET.fullmatch(url):
        return RedisPlace("server", url)
    found = _URL.fullmatch(url)
    if found is None:
        return None
    kind: Kind = found["kind"] or "server"  # type: ignore[assignment]
    hosts = _hosts_of(found["hosts"], 26379 if kind == "sentinel" else 6379)
    path = _PATHS[kind].fullmatch(found["path"] or "")
    if not hosts or path is None or (kind == "server" and len(hosts) > 1):
        return None
    parts = path.groupdict()
    return RedisPlace(
        kind,
        url,
        is_secure=found["scheme"] == "rediss",
        account=found["account"] or "",
        hosts=hosts,
        service=parts.get("service") or "",
        database=int(parts["database"] or 0),
    )


def _hosts_of(text: str, port: int) -> tuple[tuple[str, int], ...]:
    """Return the hosts with their ports, or nothing if one of them is none."""
    found = [_HOST.fullmatch(part) for part in text.split(",")]
    hosts = [(one["name"].strip("[]"), int(one["port"] or port)) for one in found if one]
    is_good = len(hosts) == len(found) and all(0 < number <= _PORT_MAX for _, number in hosts)
    return tuple(hosts) if is_good else ()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
