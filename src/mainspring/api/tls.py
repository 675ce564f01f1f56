"""TLS of the servers: what they show, whom they believe, and what a client's certificate says."""

import ssl
from typing import Any, Final

from mainspring.domain.errors import InvalidConfiguration

NAMES_MAX: Final = 50
_KINDS: Final = frozenset({"DNS", "URI"})


def server_context(
    cert_file: str, key_file: str, client_ca_file: str = "", *, client_required: bool = False
) -> ssl.SSLContext:
    """Return how a server speaks TLS 1.2 or newer, with the certificates of these files.

    With authorities for clients, a certificate that a client shows has to come from one of them.
    Raises `InvalidConfiguration` naming the setting that does not work.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ValueError) as error:
        raise _unusable("tls_cert_file and tls_key_file", error) from None
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ValueError) as error:
            raise _unusable("tls_client_ca_file", error) from None
        context.verify_mode = ssl.CERT_REQUIRED if client_required else ssl.CERT_OPTIONAL
    return context


def client_names(transport: Any) -> tuple[str, ...]:
    """Return the names in the certificate that the client of a connection has proved to hold: its
    alternative names that are hosts or URIs. The common name counts for nothing.
    """
    connection = transport.get_extra_info("ssl_object")
    certificate = None if connection is None else connection.getpeercert()
    if not certificate:
        return ()
    alternatives = certificate.get("subjectAltName", ())
    return tuple(name for kind, name in alternatives if kind in _KINDS)[:NAMES_MAX]


def _unusable(settings: str, error: Exception) -> InvalidConfiguration:
    reason = getattr(error, "strerror", None) or error
    return InvalidConfiguration(f"{settings} cannot be used: {reason}")
