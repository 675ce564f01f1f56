"""The settings that say who may reach the API, and how they prove who they are."""

import dataclasses
import ipaddress
from collections.abc import Iterator
from typing import Annotated, Final
from urllib.parse import urlsplit

from mainspring.config.facts import Facts

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures by a key pair. What is signed with a shared secret could be made by who checks it."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SecuritySettings:
    """Part of `Settings`."""

    tls_cert_file: Annotated[
        str,
        Facts(
            "PEM file with the certificate of the API, and those that lead to its authority. "
            "Empty: the API speaks without TLS"
        ),
    ] = ""
    tls_key_file: Annotated[str, Facts("PEM file with the key of `tls_cert_file`")] = ""
    tls_client_ca_file: Annotated[
        str,
        Facts(
            "PEM file with the authorities whose client certificates are believed; see "
            "`mainspring keys create --certificate`. Empty: none is asked for"
        ),
    ] = ""
    tls_client_required: Annotated[
        bool, Facts("Whether a client without a certificate is refused before it can ask anything")
    ] = False
    oidc_issuer: Annotated[
        str,
        Facts(
            "The issuer of bearer tokens (JWT), exactly as in their `iss`, such as "
            "`https://login.example.com`. Empty: only API keys are accepted"
        ),
    ] = ""
    oidc_audience: Annotated[str, Facts("What the `aud` of a token has to name")] = ""
    oidc_jwks_url: Annotated[
        str,
        Facts(
            "Where the issuer's keys are. Empty: where its "
            "`.well-known/openid-configuration` says, on its own host"
        ),
    ] = ""
    oidc_jwks_file: Annotated[
        str, Facts("A file with the issuer's keys, instead of fetching them")
    ] = ""
    oidc_algorithms: Annotated[
        tuple[str, ...], Facts("How a token may be signed, separated by commas", choices=ALGORITHMS)
    ] = ("RS256", "ES256", "EdDSA")
    oidc_scopes_claim: Annotated[
        str, Facts("The claim with the scopes of a token, such as `mainspring:submit`")
    ] = "scope"
    oidc_namespace_claim: Annotated[
        str, Facts("The claim with the namespace of a token. Where a token has none: `default`")
    ] = "mainspring_namespace"
    oidc_queues_claim: Annotated[
        str, Facts("The claim with the queues that a token is for. Where it has none: all")
    ] = "mainspring_queues"


def security_problems(settings: SecuritySettings) -> Iterator[str]:
    """Yield a sentence for each thing in these settings that does not fit together."""
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        yield "tls_cert_file and tls_key_file belong together; set both or neither"
    if settings.tls_client_ca_file and not settings.tls_cert_file:
        yield "tls_client_ca_file is set without tls_cert_file; only a server with TLS asks clients"
    if settings.tls_client_required and not settings.tls_client_ca_file:
        yield "tls_client_required is true without tls_client_ca_file; say whom to believe"
    if settings.oidc_issuer:
        yield from _token_problems(settings)
    elif settings.oidc_audience or settings.oidc_jwks_url or settings.oidc_jwks_file:
        yield "oidc_audience, oidc_jwks_url and oidc_jwks_file need oidc_issuer; set it"


def _token_problems(settings: SecuritySettings) -> Iterator[str]:
    if not settings.oidc_audience:
        yield "oidc_issuer is set without oidc_audience; tokens for others would be accepted"
    if not settings.oidc_algorithms:
        yield "oidc_algorithms is empty; name at least one"
    if settings.oidc_jwks_url and settings.oidc_jwks_file:
        yield "oidc_jwks_url and oidc_jwks_file are both set; keep one of them"
    needed = ["oidc_jwks_url"] if settings.oidc_jwks_url else []
    if not settings.oidc_jwks_file and not needed:
        needed = ["oidc_issuer"]
    for name in needed:
        if not is_safe_url(getattr(settings, name)):
            yield (
                f"{name} is not an https URL without user, query and fragment; only on this "
                "machine itself may it be http"
            )


def is_safe_url(url: str) -> bool:
    """Whether keys may be fetched from a URL: nobody on the way can have changed them."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or parts.query:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
