"""Which addresses an HTTP request made for somebody else may go to.

A URL in a task comes from whoever may submit tasks, and the request leaves from inside the
operator's network. So a URL is read strictly, and the addresses behind its name are looked up
once and all checked; the connection is then made to one of the addresses that were checked.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from mainspring.domain.errors import InvalidValue, TargetRefused
from mainspring.domain.values import shown

URL_LENGTH_MAX: Final = 2048
PORTS: Final = (80, 443, 8080, 8443)
"""Ports that requests may go to unless the operator says otherwise."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SCHEME_PORTS: Final = {"http": 80, "https": 443}
_BAD_CHARACTERS: Final = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_HOST_LENGTH_MAX: Final = 253
_PORT_MAX: Final = 65535
_AMBIGUOUS: Final = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters that older and newer rules turn into different names."""


class Target(NamedTuple):
    """A URL, taken apart and written in one way."""

    scheme: str
    host: str
    """In lower case, without a final dot; an IPv6 address without brackets."""

    port: int
    path: str
    """With the query; as it was given."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """What decides whether two URLs lead to the same server."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _SCHEME_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL as it may stand in a message: without what may be secret."""
        return f"{self.scheme}://{self.authority}"


def parse_target(url: object, field: str = "url") -> Target:
    """Take a URL apart, or raise `TargetRefused` with what is wrong with it.

    Accepted are http and https, names of ASCII letters (others are translated), and addresses in
    their usual form. Accounts, zones, and addresses that only some programs read are refused.
    """
    if not isinstance(url, str) or not url or len(url) > URL_LENGTH_MAX:
        raise _refused(url, field, f"give the text of a URL of at most {URL_LENGTH_MAX} characters")
    if _BAD_CHARACTERS.search(url):
        raise _refused(url, field, "a URL has no spaces, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused(url, field, "it is not a URL; write http://host/path") from None
    if parts.scheme not in _SCHEME_PORTS or not parts.netloc:
        raise _refused(url, field, "only http:// and https:// URLs with a host are called")
    if "@" in parts.netloc:
        # Not shown: it may hold a password.
        message = f"{field} names a user before the host; put credentials into a header instead"
        raise TargetRefused(message, field=field)
    if port == 0:
        raise _refused(url, field, f"a port is a number from 1 to {_PORT_MAX}")
    host = _host(parts.hostname or "", url, field)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii():
        raise _refused(url, field, "write other than ASCII characters as %xx")
    return Target(parts.scheme, host, port or _SCHEME_PORTS[parts.scheme], path)


def redirected(target: Target, location: str) -> Target:
    """Return where an answer that came from `target` sends the request on to."""
    there = parse_target(urljoin(f"{target.shown}{target.path}", location), "Location")
    if target.scheme == "https" and there.scheme == "http":
        raise TargetRefused("Location leads from https to http; that is not followed")
    return there


def literal(host: str) -> Address | None:
    """Return the address that a host is, if it is one."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _host(host: str, url: str, field: str) -> str:
    if "%" in host:
        raise _refused(url, field, "a host has no zone and no %xx")
    if ":" in host or "[" in url.partition("://")[2].partition("/")[0]:
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise _refused(url, field, "its host is no IPv6 address") from None
    name = _ascii(host, url, field).removesuffix(".")
    labels = name.split(".")
    if len(name) > _HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused(url, field, "its host is not a name or an address")
    if _NUMBER.fullmatch(labels[-1]):
        # Some resolvers read 127.1, 0x7f.1 and 2130706433 as addresses.
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise _refused(
                url, field, "write an IPv4 address as four decimal numbers, such as 192.0.2.1"
            ) from None
    return name


def _ascii(host: str, url: str, field: str) -> str:
    if host.isascii():
        return host.lower()
    ascii_form = "write its host in the ASCII form, xn--..."
    if _AMBIGUOUS & set(host):
        raise _refused(url, field, ascii_form)
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError:
        raise _refused(url, field, ascii_form) from None


def _refused(url: object, field: str, problem: str) -> TargetRefused:
    return TargetRefused(f"{field} is {shown(url)}; {problem}", field=field)


def _networks(*rows: tuple[str, str]) -> tuple[tuple[Network, str], ...]:
    return tuple((ip_network(network), what) for network, what in rows)


_CLOSED: Final = _networks(
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved for protocols"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("2001::/32", "Teredo"),
    ("2001::/23", "reserved for protocols"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "for documentation"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")


def address_problem(address: Address) -> str | None:
    """Return what keeps an address from being one of the public internet; None: it is one."""
    for network, what in _CLOSED:
        if address.version == network.version and address in network:
            return what
    if isinstance(address, IPv6Address) and (
        address.scope_id is not None or address not in _GLOBAL_IPV6
    ):
        return "reserved"
    return None


class Allowed(NamedTuple):
    """One entry of the operator's list of internal targets."""

    host: str | None
    network: Network | None
    port: int | None


def parse_allowed(text: str, field: str = "http_allow") -> Allowed:
    """Read an entry of the list: a host name, an address or a network, with or without a port:
    `billing.internal`, `10.1.0.0/16`, `127.0.0.1:9000`, `[fd00::/8]:8443`.
    """
    bare, port = text.strip().lower(), None
    found = re.fullmatch(r"\[(?P<six>[^\]]+)\](:(?P<p>\d+))?|(?P<four>[^:\[\]]+):(?P<q>\d+)", bare)
    if found:
        bare = found["six"] or found["four"]
        number = found["p"] or found["q"]
        port = int(number[:6]) if number else None
    if port is None or 0 < port <= _PORT_MAX:
        try:
            return Allowed(None, ip_network(bare), port)
        except ValueError:
            name = bare.removesuffix(".")
            if all(_LABEL.fullmatch(label) for label in name.split(".")):
                return Allowed(name, None, port)
    message = (
        f"{field} has {shown(text)}; give host names, addresses or networks, such as "
        "billing.internal, 10.1.0.0/16 or 127.0.0.1:9000"
    )
    raise InvalidValue(message, field=field)


class TargetRules(NamedTuple):
    """Where requests may go: to public addresses on the usual ports, and where the operator says.

    An entry of `allowed` with a port opens that port; one without opens the host or network on
    `ports` alone.
    """

    ports: tuple[int, ...] = PORTS
    allowed: tuple[Allowed, ...] = ()

    def check_host(self, target: Target) -> bool:
        """Refuse what needs no look-up; True: the operator named the host, so whatever address
        its name has is right.
        """
        if self._names(target):
            return True
        if target.port not in self.ports and not any(
            entry.network is not None and entry.port == target.port for entry in self.allowed
        ):
            raise self._closed_port(target)
        address = literal(target.host)
        if address is not None:
            self.check_addresses(target, [address])
            return False
        is_internal = "." not in target.host or target.host.endswith(_INTERNAL_NAMES)
        # A network that is allowed may hold it; then its address decides.
        if is_internal and not any(entry.network is not None for entry in self.allowed):
            raise _internal(target, "a name of an internal network")
        return False

    def check_addresses(self, target: Target, addresses: Sequence[Address]) -> None:
        """Refuse a target unless every address of its name is public or allowed."""
        for address in addresses:
            if self._allows(address, target.port):
                continue
            problem = address_problem(address)
            if problem is not None:
                raise _internal(target, f"an address that is not public ({problem})")
            if target.port not in self.ports:
                raise self._closed_port(target)

    def _closed_port(self, target: Target) -> TargetRefused:
        ports = ", ".join(str(port) for port in self.ports)
        return TargetRefused(
            f"port {target.port} of {target.shown} is not one of those that requests may go to: "
            f"{ports}; the operator can open it with http_ports or http_allow",
            field="url",
        )

    def _names(self, target: Target) -> bool:
        return any(
            entry.host == target.host and self._port_fits(entry, target.port)
            for entry in self.allowed
        )

    def _allows(self, address: Address, port: int) -> bool:
        return any(
            entry.network is not None
            and entry.network.version == address.version
            and address in entry.network
            and self._port_fits(entry, port)
            for entry in self.allowed
        )

    def _port_fits(self, entry: Allowed, port: int) -> bool:
        return port in self.ports if entry.port is None else entry.port == port


_INTERNAL_NAMES: Final = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa")


def _internal(target: Target, what: str) -> TargetRefused:
    return TargetRefused(
        f"{target.shown} leads to {what}; requests go to public addresses only, and the operator "
        "can allow others with http_allow",
        field="url",
    )
