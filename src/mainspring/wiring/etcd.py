"""etcd, as the settings name it."""

import asyncio
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mainspring.adapters.etcd.client import EtcdClient, EtcdOptions, Status
from mainspring.adapters.etcd.coordination import EtcdCoordination
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.domain.errors import InvalidConfiguration, MainspringError

_PORT: Final = 2379
_FIRST_GOOD: Final = (3, 5, 3)
_LOSES_DATA: Final = ((3, 5, 0), (3, 5, 1), (3, 5, 2))


def etcd_coordination(settings: Settings) -> EtcdCoordination:
    """Return coordination in the configured etcd."""
    return EtcdCoordination(etcd_options(settings), settings.etcd_prefix, SystemClock())


def etcd_options(settings: Settings) -> EtcdOptions:
    """Return how to connect; raises `InvalidConfiguration` when the certificates are not there or
    do not belong to their keys.
    """
    urls = [urlsplit(url.strip()) for url in settings.etcd_url.split(",")]
    return EtcdOptions(
        endpoints=tuple(f"{_host(url.hostname or '')}:{url.port or _PORT}" for url in urls),
        is_secure=urls[0].scheme == "https",
        ca=_content("etcd_ca_file", settings.etcd_ca_file),
        certificate=_content("etcd_cert_file", settings.etcd_cert_file),
        key=_key(settings),
        user=unquote(urls[0].username or ""),
        password=unquote(urls[0].password or ""),
    )


def _content(name: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfiguration(
            f"{name} is {path!r} and cannot be read ({error.strerror})", field=name
        ) from None


def _key(settings: Settings) -> bytes | None:
    """Return the key, checked here: the library takes any, and then no connection comes up."""
    key = _content("etcd_key_file", settings.etcd_key_file)
    if key is None:
        return None
    try:
        # With an empty password, or it would ask for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(
            settings.etcd_cert_file, settings.etcd_key_file, password=""
        )
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(
            f"etcd_cert_file {settings.etcd_cert_file!r} and etcd_key_file "
            f"{settings.etcd_key_file!r} cannot be used ({error}); give a certificate and its key "
            "as PEM, the key without a password",
            field="etcd_key_file",
        ) from None
    return key


async def etcd_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Say of each endpoint whether it answers, has a leader and can be trusted with data, and of
    all of them whether they belong together.
    """
    try:
        options = etcd_options(settings)
    except MainspringError as error:
        return [(False, error.message)]
    client = EtcdClient(options)
    places = range(len(options.endpoints))
    try:
        states = await asyncio.gather(*(_status(client, at) for at in places))
    finally:
        await client.close()
    found = [_finding(name, one) for name, one in zip(options.endpoints, states, strict=True)]
    leaders = {one.leader for one in states if isinstance(one, Status) and one.leader}
    if len(leaders) > 1:
        detail = (
            "the endpoints of etcd_url follow different leaders; name the members of one cluster, "
            "or look again when an election is over"
        )
        found.append((False, detail))
    return found


async def _status(client: EtcdClient, at: int) -> Status | MainspringError:
    try:
        return await client.status(at)
    except MainspringError as error:
        return error


def _finding(name: str, status: Status | MainspringError) -> tuple[bool, str]:
    if isinstance(status, MainspringError):
        return False, status.message
    said = f"etcd {status.version} at {name}"
    if not status.leader:
        return False, f"{said} has no leader; start the other members"
    version = _version(status.version)
    if version in _LOSES_DATA:
        return False, f"{said} is known to lose data; update it to 3.5.3 or later"
    if version < _FIRST_GOOD:
        return False, f"{said} gets no repairs any more; update it to 3.5.3 or later"
    return True, said


def _version(text: str) -> tuple[int, ...]:
    numbers = text.partition("-")[0].split(".")
    return tuple(int(number) for number in numbers if number.isdecimal())


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name
