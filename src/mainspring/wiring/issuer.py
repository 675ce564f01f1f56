"""Bearer tokens of the configured issuer. Loaded only where one is configured."""

from pathlib import Path

from mainspring.adapters.oidc.keys import IssuerKeys
from mainspring.adapters.oidc.sources import KeyFile, KeyServer, KeySource
from mainspring.adapters.oidc.tokens import Expected, OidcTokens
from mainspring.config import Settings
from mainspring.ports.clock import Clock


def issuer_tokens(settings: Settings, clock: Clock) -> OidcTokens:
    """Return what checks the tokens of the issuer."""
    source: KeySource
    if settings.oidc_jwks_file:
        source = KeyFile(Path(settings.oidc_jwks_file))
    else:
        source = KeyServer(settings.oidc_issuer, settings.oidc_jwks_url)
    expected = Expected(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=settings.oidc_algorithms,
        scopes_claim=settings.oidc_scopes_claim,
        namespace_claim=settings.oidc_namespace_claim,
        queues_claim=settings.oidc_queues_claim,
    )
    return OidcTokens(expected, IssuerKeys(source, settings.oidc_algorithms, clock), clock)
