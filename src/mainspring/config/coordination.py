"""The settings that say how schedulers share their work out."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from mainspring.config.facts import Facts


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class CoordinationSettings:
    """Part of `Settings`."""

    coordination: Annotated[
        str,
        Facts(
            "Where schedulers meet to share their work out: in the database or in etcd",
            choices=("postgres", "etcd"),
        ),
    ] = "postgres"
    etcd_url: Annotated[
        str,
        Facts(
            "Endpoints of etcd, such as `http://user:password@host:2379`, separated by commas; "
            "`https` for TLS. The user and password of the first count for all",
            secret=True,
        ),
    ] = ""
    etcd_ca_file: Annotated[
        str,
        Facts(
            "PEM file with the authorities that are believed for `etcd_url`. Empty: those of the "
            "system"
        ),
    ] = ""
    etcd_cert_file: Annotated[
        str,
        Facts(
            "PEM file with the certificate that is shown to an etcd which asks its clients for "
            "one. Read when a process starts"
        ),
    ] = ""
    etcd_key_file: Annotated[str, Facts("PEM file with the key of `etcd_cert_file`")] = ""
    etcd_prefix: Annotated[
        str,
        Facts("What the keys in etcd begin with. Installations that share one etcd need one each"),
    ] = "mainspring"
    scheduler_ttl_seconds: Annotated[
        float,
        Facts(
            "How long a scheduler that died keeps its share of the schedules before the others "
            "take it over",
            unit="seconds",
            low=1,
            high=600,
        ),
    ] = 10.0


def coordination_problems(settings: CoordinationSettings) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong."""
    if settings.coordination == "etcd" and not settings.etcd_url:
        yield "coordination is etcd but etcd_url is empty; say where etcd is"
    if settings.etcd_url and not all(map(_is_endpoint, settings.etcd_url.split(","))):
        # Not shown: it may hold a password.
        yield (
            "etcd_url is no list of etcd's endpoints; write http://user:password@host:2379, or "
            "several of them separated by commas"
        )
    elif len({url.strip().partition(":")[0] for url in settings.etcd_url.split(",")}) > 1:
        yield "etcd_url mixes http and https; use the same for all endpoints"
    if bool(settings.etcd_cert_file) != bool(settings.etcd_key_file):
        yield "etcd_cert_file and etcd_key_file belong together; set both or neither"
    if settings.etcd_cert_file and not settings.etcd_url.strip().startswith("https"):
        yield (
            "etcd_cert_file is set and etcd_url does not begin with https; a certificate is shown "
            "over TLS alone"
        )
    if not settings.etcd_prefix.strip("/"):
        yield "etcd_prefix is empty; give a name, such as mainspring"


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url.strip())
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_whole = parts.path in {"", "/"} and not parts.query and not parts.fragment
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and has_port and is_whole
