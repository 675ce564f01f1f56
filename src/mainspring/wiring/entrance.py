"""Who may come in: keys, certificates and tokens, TLS, and what is said about the lack of them."""

import importlib
import ssl
from collections.abc import Iterator

from mainspring.api.tls import server_context
from mainspring.config import Settings, is_loopback
from mainspring.domain.errors import InvalidConfiguration
from mainspring.ports.access import Tokens
from mainspring.ports.clock import Clock


def tokens_of(settings: Settings, clock: Clock) -> Tokens | None:
    """Return what checks bearer tokens, if an issuer is configured."""
    if not (settings.auth and settings.oidc_issuer):
        return None
    # What it needs takes time to load, and most installations have only keys.
    tokens: Tokens = importlib.import_module("mainspring.wiring.issuer").issuer_tokens(
        settings, clock
    )
    return tokens


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return how the API speaks TLS; None if it does not."""
    if not settings.tls_cert_file:
        return None
    return server_context(
        settings.tls_cert_file,
        settings.tls_key_file,
        settings.tls_client_ca_file,
        client_required=settings.tls_client_required,
    )


def check_exposure(settings: Settings) -> None:
    """Refuse to be reachable from other machines without authentication."""
    if settings.auth or is_loopback(settings.host):
        return
    raise InvalidConfiguration(
        f"auth is off and host is {settings.host}, which other machines can reach; turn auth on, "
        "or listen on 127.0.0.1"
    )


def exposures(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each way on which others can read what the API is told."""
    if not is_loopback(settings.host) and not settings.tls_cert_file:
        yield (
            f"the API listens on {settings.host} without TLS, so others on the way can read keys "
            "and tasks; set tls_cert_file and tls_key_file, or put a proxy with TLS before it"
        )
